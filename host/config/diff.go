package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// maxChanges is the maximum length of the list that Diff returns.
const maxChanges = 200

// Diff returns the differences of b from a, a line for each key: "profiles[a].holdout:
// 0.005 → 0", "pools[b]: added". List members with names are identified by them. The
// configuration of a plugin may be secret: the line reports only that it changed.
func Diff(a, b *Config) []string {
	d := &differ{}
	d.value("", reflect.ValueOf(*a), reflect.ValueOf(*b))
	if n := len(d.out); n > maxChanges {
		d.out = append(d.out[:maxChanges], fmt.Sprintf("and %d more", n-maxChanges))
	}
	return d.out
}

// differ collects differences.
type differ struct{ out []string }

func (d *differ) add(path, format string, args ...any) {
	d.out = append(d.out, path+": "+fmt.Sprintf(format, args...))
}

// value compares two values of one type at path.
func (d *differ) value(path string, a, b reflect.Value) {
	switch a.Interface().(type) {
	case JSON:
		if a.Interface() != b.Interface() {
			d.add(path, "changed")
		}
		return
	case Duration:
		if a.Int() != b.Int() {
			d.add(path, "%v → %v", time.Duration(a.Int()), time.Duration(b.Int()))
		}
		return
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if key := a.Type().Field(i).Tag.Get("yaml"); key != "-" {
				d.value(join(path, key), a.Field(i), b.Field(i))
			}
		}
	case reflect.Slice:
		d.list(path, a, b)
	case reflect.Map:
		d.dict(path, a, b)
	case reflect.Pointer:
		switch {
		case a.IsNil() && b.IsNil():
		case a.IsNil() || b.IsNil():
			d.add(path, "%s → %s", text(a), text(b))
		default:
			d.value(path, a.Elem(), b.Elem())
		}
	default:
		if a.Interface() != b.Interface() {
			d.add(path, "%s → %s", text(a), text(b))
		}
	}
}

// text formats a scalar.
func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "absent"
		}
		v = v.Elem()
	}
	if s := fmt.Sprint(v.Interface()); s != "" {
		return s
	}
	return `""`
}

// list compares two lists: lists of strings as a whole, others by the names of their
// members, or by index where these have none.
func (d *differ) list(path string, a, b reflect.Value) {
	if a.Type().Elem().Kind() == reflect.String {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) && a.Len()+b.Len() > 0 {
			d.add(path, "%v → %v", a.Interface(), b.Interface())
		}
		return
	}
	d.pairs(members(a), members(b), func(k string) string { return path + "[" + k + "]" })
}

// members returns a list's members by name, or by index where they have none.
func members(l reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for i := range l.Len() {
		m, k := l.Index(i), fmt.Sprint(i)
		switch s := m.Addr().Interface().(type) {
		case *Scorer:
			k = s.Name()
		default:
			if f := m.FieldByName("Name"); m.Kind() == reflect.Struct && f.IsValid() && f.Kind() == reflect.String {
				k = f.String()
			}
		}
		for _, there := out[k]; there; _, there = out[k] { // names are unique in a valid configuration
			k += "'"
		}
		out[k] = m
	}
	return out
}

// pairs compares values by key; at returns the path of a key.
func (d *differ) pairs(was, now map[string]reflect.Value, at func(k string) string) {
	for _, k := range sorted(was, now) {
		switch x, y := was[k], now[k]; {
		case !x.IsValid():
			d.add(at(k), "added")
		case !y.IsValid():
			d.add(at(k), "removed")
		default:
			d.value(at(k), x, y)
		}
	}
}

func (d *differ) dict(path string, a, b reflect.Value) {
	was, now := map[string]reflect.Value{}, map[string]reflect.Value{}
	for _, k := range a.MapKeys() {
		was[k.String()] = a.MapIndex(k)
	}
	for _, k := range b.MapKeys() {
		now[k.String()] = b.MapIndex(k)
	}
	d.pairs(was, now, func(k string) string { return join(path, k) })
}

func sorted(a, b map[string]reflect.Value) []string {
	keys := slices.Collect(maps.Keys(a))
	keys = append(keys, slices.Collect(maps.Keys(b))...)
	slices.SortFunc(keys, strings.Compare)
	return slices.Compact(keys)
}
