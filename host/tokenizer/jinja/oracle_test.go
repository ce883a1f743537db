package jinja

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// at is the time at which the references were rendered.
var at = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// source is a chat template with the special tokens that it may print.
type source struct {
	T   string `json:"t"`
	Bos string `json:"bos"`
	Eos string `json:"eos"`
}

// renderConversation renders a conversation with the settings of the references.
func renderConversation(t *Template, s source, conversation []byte) (string, error) {
	v, err := DecodeJSON(conversation, nil)
	if err != nil {
		return "", err
	}
	vars := map[string]Value{"tools": None, "documents": None, "bos_token": Str(s.Bos), "eos_token": Str(s.Eos)}
	for i, k := range v.Dict().Keys {
		vars[k] = v.Dict().Vals[i]
	}
	var out Output
	if err := t.Render(vars, at, &out); err != nil {
		return "", err
	}
	return string(out.Append(nil)), nil
}

// TestRender_python compares renders of real templates byte for byte with those
// of Python Jinja2 3.1.6, and checks that both reject the same conversations.
func TestRender_python(t *testing.T) {
	testdeps.Sequential(t)
	dir := filepath.Join(testdeps.Cache(t), "chat")
	raw, err := os.ReadFile(filepath.Join(dir, "templates.json"))
	if err != nil {
		t.Fatalf("no references, run make deps: %v", err)
	}
	var sources map[string]source
	if err := json.Unmarshal(raw, &sources); err != nil {
		t.Fatal(err)
	}
	templates := map[string]*Template{}
	for name, s := range sources {
		c, err := Compile(s.T, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		templates[name] = c
	}
	f, err := os.Open(filepath.Join(dir, "renders.jsonl"))
	if err != nil {
		t.Fatalf("no references, run make deps: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	rendered, refused, unsupported, faults := 0, 0, 0, map[string]int{}
	for lines.Scan() {
		var c struct {
			N string
			C json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		conversation := append([]byte(nil), c.C...)
		var renders map[string]*string
		if !lines.Scan() {
			t.Fatal("references end early")
		}
		if err := json.Unmarshal(lines.Bytes(), &renders); err != nil {
			t.Fatal(err)
		}
		for name, want := range renders {
			if templates[name] == nil {
				continue
			}
			got, err := renderConversation(templates[name], sources[name], conversation)
			var u *UnsupportedError
			switch {
			case want == nil && err != nil:
				refused++
			case want != nil && err == nil && got == *want:
				rendered++
			case errors.As(err, &u):
				unsupported++
				t.Errorf("%s, %s: %v", name, c.N, err)
			default:
				if faults[name]++; faults[name] < 3 {
					t.Errorf("%s, %s: %s", name, c.N, difference(got, want, err))
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d templates, %d renders equal, %d refusals agreed, %d not supported", len(templates), rendered, refused,
		unsupported)
	if len(templates) < 50 || rendered < 5000 {
		t.Error("too few references, run make deps")
	}
}

// difference describes where two renders differ.
func difference(got string, want *string, err error) string {
	if want == nil {
		return "rendered what Python refuses"
	}
	if err != nil {
		return "refused what Python renders: " + err.Error()
	}
	i := 0
	for i < len(got) && i < len(*want) && got[i] == (*want)[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-40):min(len(s), i+60)] }
	return "got …" + cut(got) + "…, want …" + cut(*want) + "…"
}
