package jinja

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

func seeds(f *testing.F) (templates []string, conversation []byte) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.jinja"))
	if err != nil || len(files) == 0 {
		f.Fatal("no templates in testdata")
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		templates = append(templates, string(src))
	}
	return templates, []byte(`{"messages":[{"role":"user","content":"a\u00e9 <b>"},{"role":"assistant",` +
		`"content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]}],` +
		`"add_generation_prompt":true}`)
}

// FuzzCompile compiles and renders any source. It may fail but must not panic or hang.
func FuzzCompile(f *testing.F) {
	templates, conversation := seeds(f)
	for _, s := range templates {
		f.Add(s)
	}
	for _, s := range []string{"{{ x[1:2:3] | tojson(indent=2) }}",
		"{% macro a(b, c=1) %}{{ varargs }}{{ kwargs }}{% endmacro %}{% call(x) a(1) %}{{ x }}{% endcall %}",
		"{#- c -#}{%+ if 1 +%}{% endif %}", "{{ '\\x41\\u00e9\\U0001F600\\101' }}",
		"{% filter upper | trim %} x {% endfilter %}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Compile(src, Options{MaxSteps: 10_000, MaxBytes: 1 << 20, MaxDepth: 20})
		if err != nil {
			return
		}
		c.LoopsOverContent()
		got, err := renderConversation(c, source{T: src}, conversation)
		again, err2 := renderConversation(c, source{T: src}, conversation)
		if (err == nil) != (err2 == nil) || err == nil && got != again {
			t.Errorf("two renders differ: %q %v, %q %v", got, err, again, err2)
		}
	})
}

// FuzzDecodeJSON compares the result with encoding/json, which is more lenient
// in some cases and stricter only for NaN and Infinity.
func FuzzDecodeJSON(f *testing.F) {
	_, conversation := seeds(f)
	for _, s := range []string{string(conversation), `"\ud83d\ude00\u00e9\n"`, `-0.5e+10`, `[1,[2,{"a":{}}]]`,
		`123456789012345678901234567890`, `NaN`, `{"a":1,"a":2}`, ` true `, `"\`, `"\\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeJSON(b, &Meter{})
		if err != nil {
			return
		}
		r := &run{bytes: 1 << 30, steps: 1 << 20}
		o := &jsonOptions{r: r, indent: -1, item: ",", key: ":"}
		out := o.text(v)
		if !utf8.ValidString(out) {
			t.Fatalf("%q gives invalid UTF-8", b)
		}
		if bytes.Contains([]byte(out), []byte("NaN")) || bytes.Contains([]byte(out), []byte("Infinity")) {
			return
		}
		if !json.Valid(b) || !json.Valid([]byte(out)) {
			t.Fatalf("%q accepted as %q", b, out)
		}
		again, err := DecodeJSON([]byte(out), nil)
		if err != nil || !r.equal(v, again) {
			t.Fatalf("%q written as %q, which reads otherwise", b, out)
		}
	})
}
