package jsonscan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var texts = []string{
	`{}`, `[]`, `0`, `-1.5e+3`, `"a\"\\\u00e9"`, `true`, `false`, `null`, `{"a":[1, 2,{"b":null}],"c":"d"}`,
	` `, ``, `{`, `{"a"`, `{"a":`, `{"a":1,}`, `[1,]`, `01`, `1.`, `"\x"`, `"\u12"`, "\"\n\"", `tru`, `{"a":1]`, `]`,
	"\"" + strings.Repeat("x", 200) + "\"", strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
}

// FuzzValue: Value accepts what encoding/json accepts, and nothing else.
func FuzzValue(f *testing.F) {
	for _, t := range texts {
		f.Add([]byte(t))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i := Space(b, 0)
		end, err := Value(b, i, 0)
		ok := err == nil && Space(b, end) == len(b)
		if want := json.Valid(b); ok != want && !deep(b) {
			t.Fatalf("%q: got %v (%v), want %v", b, ok, err, want)
		}
		if err != nil && (err.At < 0 || err.At > len(b) || err.What == "") {
			t.Fatalf("%q: fault %+v", b, err)
		}
		if (End(b, i) < 0) != (err != nil) {
			t.Fatalf("%q: End and Value differ", b)
		}
	})
}

// deep reports whether b may be nested deeper than MaxDepth.
func deep(b []byte) bool {
	n := 0
	for _, c := range b {
		if c == '[' || c == '{' {
			n++
		}
	}
	return n > MaxDepth
}

// FuzzEach: Each finds the members that encoding/json finds, in order.
func FuzzEach(f *testing.F) {
	for _, t := range texts {
		f.Add([]byte(t))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i := Space(b, 0)
		var keys []string
		ok := Each(b, i, func(key, keyEnd, start, end int) bool {
			if !json.Valid(b[start:end]) {
				t.Fatalf("%q: value %q", b, b[start:end])
			}
			keys = append(keys, string(b[key:keyEnd]))
			return true
		})
		if !json.Valid(b) || i >= len(b) || b[i] != '{' {
			return
		}
		if !ok && !deep(b) {
			t.Fatalf("%q: not walked", b)
		}
		d := json.NewDecoder(strings.NewReader(string(b[i:])))
		d.Token()
		for n := 0; d.More(); n++ {
			name, _ := d.Token()
			var v json.RawMessage
			if err := d.Decode(&v); err != nil || n >= len(keys) {
				t.Fatalf("%q: %d keys, %v", b, len(keys), err)
			}
			var got string
			if json.Unmarshal([]byte(keys[n]), &got); got != name {
				t.Fatalf("%q: key %q, want %q", b, got, name)
			}
		}
	})
}

func TestEachElement(t *testing.T) {
	got := ""
	b := []byte(` [ 1, "a,b" ,[2,3],{} ]x`)
	if !EachElement(b, 1, func(at int) int {
		end := End(b, at)
		got += string(b[at:end]) + ";"
		return end
	}) || got != `1;"a,b";[2,3];{};` {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1 2]`, `[1,`} {
		if EachElement([]byte(bad), 0, func(at int) int { return End([]byte(bad), at) }) {
			t.Errorf("%q was walked", bad)
		}
	}
}

func TestError(t *testing.T) {
	_, err := Value([]byte(`{"a":1,]`), 0, 0)
	if !errors.As(error(err), new(*Error)) || err.Error() != "jsonscan: expected a key at byte 7" {
		t.Errorf("got %v", err)
	}
}

// FuzzUnquote: Unquote decodes as encoding/json does, and refuses what decoders
// differ in.
func FuzzUnquote(f *testing.F) {
	for _, t := range texts {
		f.Add([]byte(t))
	}
	f.Add([]byte(`"\ud83d\ude00\ud800"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || b[0] != '"' {
			return
		}
		end, _, err := String(b, 0)
		if err != nil {
			return
		}
		var want string
		if json.Unmarshal(b[:end], &want) != nil {
			t.Fatalf("%q is no string", b[:end])
		}
		got, ok := Unquote(nil, b[:end])
		if ok && string(got) != want {
			t.Fatalf("%q: got %q, want %q", b[:end], got, want)
		}
		if !ok && !strings.Contains(want, "\ufffd") {
			t.Fatalf("%q: refused, %q", b[:end], want)
		}
	})
}

// Find reports a key at any depth, and a key that an escape may spell.
func TestFind(t *testing.T) {
	for text, want := range map[string]bool{
		`{"uuid":1}`: true, `[{"a":[{"uuid":1}]}]`: true, `{"a":{"b":1,"uuid":2}}`: true, `{"\u0075uid":1}`: true,
		`{"a":"uuid"}`: false, `["uuid"]`: false, `"uuid"`: false, `{"uuid2":1,"uui":"\u0075uid"}`: false, `{}`: false,
	} {
		if end, got, err := Find([]byte(text), 0, 0, "uuid"); got != want || err != nil || end != len(text) {
			t.Errorf("%s: got %v, %d, %v, want %v", text, got, end, err, want)
		}
	}
}
