package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// maxChanges bounds the list that Diff returns.
const maxChanges = 200

// Diff says what of b is not as in a, a line for each key: "profiles[a].holdout:
// 0.005 → 0", "pools[b]: added". Members of lists that have names are told apart by
// them. Of what is given to plugins only that it changed is said: it may be secret.
func Diff(a, b *Config) []string {
	d := &differ{}
	d.value("", reflect.ValueOf(*a), reflect.ValueOf(*b))
	if n := len(d.out); n > maxChanges {
		d.out = append(d.out[:maxChanges], fmt.Sprintf("and %d more", n-maxChanges))
	}
	return d.out
}

type differ struct{ out []string }

func (d *differ) add(path, format string, args ...any) {
	d.out = append(d.out, path+": "+fmt.Sprintf(format, args...))
}

// value compares two values of one type that stand at path.
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
			d.add(path, "%s → %s", said(a), said(b))
		default:
			d.value(path, a.Elem(), b.Elem())
		}
	default:
		if a.Interface() != b.Interface() {
			d.add(path, "%s → %s", said(a), said(b))
		}
	}
}

// said words a scalar.
func said(v reflect.Value) string {
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

// list compares two lists: by the members' names where these have some, else, of
// strings, as sets, else by their places.
func (d *differ) list(path string, a, b reflect.Value) {
	if a.Type().Elem().Kind() == reflect.String {
		if !reflect.DeepEqual(a.Interface(), b.Interface()) && a.Len()+b.Len() > 0 {
			d.add(path, "%v → %v", a.Interface(), b.Interface())
		}
		return
	}
	d.pairs(members(a), members(b), func(k string) string { return path + "[" + k + "]" })
}

// members returns a list's members by name, or by place where they have none.
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
		for _, there := out[k]; there; _, there = out[k] { // no configuration has two of a name
			k += "'"
		}
		out[k] = m
	}
	return out
}

// pairs compares what has the same key on both sides; at is where a key stands.
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
