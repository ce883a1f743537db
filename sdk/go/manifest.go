package kvasir

import "strconv"

// manifest renders the plugin's manifest. It is built by hand: encoding/json
// would be most of a TinyGo plugin.
func manifest() string {
	s := `{"name":` + quote(name) + `,"version":` + quote(version) + `,"abi":"` + strconv.Itoa(Major) + "." + strconv.Itoa(Minor) + `","roles":{`
	for i, key := range [numRoles]string{"filter", "score", "pick", "observe"} {
		if r := roles[i]; r != nil {
			s += `"` + key + `":{"columns":` + columnList(r.columns) + r.extra + `},`
		}
	}
	if configure != nil {
		s += `"configure":{},`
	}
	s += `"idle":{}},"state_version":` + strconv.Itoa(state)
	if publishes != "" {
		s += `,"publishes":[` + publishes + `]`
	}
	if imports != "" {
		s += `,"imports":[` + imports + `]`
	}
	return s + `}`
}

// columnList renders names; a "?" at the end makes one optional.
func columnList(names []string) string {
	s := "["
	for i, n := range names {
		if i > 0 {
			s += ","
		}
		if l := len(n); l > 0 && n[l-1] == '?' {
			s += `{"name":` + quote(n[:l-1]) + `,"optional":true}`
		} else {
			s += quote(n)
		}
	}
	return s + "]"
}

// quote renders a JSON string.
func quote(s string) string {
	const hex = "0123456789abcdef"
	b := []byte{'"'}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

func number(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 32) }
