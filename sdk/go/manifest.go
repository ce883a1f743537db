package kvasir

// text is a manifest in the making. It is put together by hand: encoding/json
// or strconv would be most of a TinyGo plugin, and so would inlined appends.
type text []byte

//go:noinline
func (t *text) add(s string) { *t = append(*t, s...) }

// manifest renders the plugin's manifest.
func manifest() string {
	var t text
	t.add(`{"name":`)
	t.quote(name)
	t.add(`,"version":`)
	t.quote(version)
	t.add(`,"abi":"`)
	t.integer(Major)
	t.add(".")
	t.integer(Minor)
	t.add(`","roles":{`)
	for i, key := range roleNames {
		if r := roles[i]; r != nil {
			t.quote(key)
			t.add(":{")
			if i < roleAutoscale {
				t.add(`"columns":`)
				t.columns(r.columns)
			}
			for _, m := range r.more {
				t.add(`,"`)
				t.add(m.key)
				t.add(`":`)
				m.value(&t)
			}
			t.add("},")
		}
	}
	if configure != nil {
		t.add(`"configure":{},`)
	}
	t.add(`"idle":{}},"state_version":`)
	t.integer(state)
	if len(published) > 0 {
		t.add(`,"publishes":[`)
		for i, c := range published {
			t.comma(i)
			t.add(`{"name":`)
			t.quote(c.Name)
			t.add(`,"default":`)
			t.number(c.Default)
			t.add("}")
		}
		t.add("]")
	}
	if len(imports) > 0 {
		t.add(`,"imports":`)
		t.list(imports)
	}
	t.add("}")
	return string(t)
}

func (t *text) comma(i int) {
	if i > 0 {
		t.add(",")
	}
}

// list renders strings.
func (t *text) list(names []string) {
	t.add("[")
	for i, n := range names {
		t.comma(i)
		t.quote(n)
	}
	t.add("]")
}

// columns renders references; a "?" at the end makes one optional.
//
//go:noinline
func (t *text) columns(names []string) {
	t.add("[")
	for i, n := range names {
		t.comma(i)
		if l := len(n); l > 0 && n[l-1] == '?' {
			t.add(`{"name":`)
			t.quote(n[:l-1])
			t.add(`,"optional":true}`)
		} else {
			t.quote(n)
		}
	}
	t.add("]")
}

// quote renders a JSON string.
//
//go:noinline
func (t *text) quote(s string) {
	const hex = "0123456789abcdef"
	t.add(`"`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			t.add(`\`)
		case c < 0x20:
			t.add(`\u00`)
			t.add(hex[c>>4:][:1])
			t.add(hex[c&15:][:1])
			continue
		}
		t.add(s[i:][:1])
	}
	t.add(`"`)
}

//go:noinline
func (t *text) integer(n int) {
	if n < 0 {
		t.add("-")
		n = -n
	}
	if n > 9 {
		t.integer(n / 10)
	}
	t.add("0123456789"[n%10:][:1])
}

// number renders a finite f in at most nine digits, which name every float32:
// they are scaled in float64, whose error is far below half of the last one.
func (t *text) number(f float32) {
	if f < 0 {
		t.add("-")
		f = -f
	}
	if f < 1e6 && f == float32(int(f)) {
		t.integer(int(f))
		return
	}
	x, exponent := float64(f), 0
	for x >= 1e9 {
		x, exponent = x/10, exponent+1
	}
	for x < 1e8 {
		x, exponent = x*10, exponent-1
	}
	t.integer(int(x + 0.5))
	t.add("e")
	t.integer(exponent)
}
