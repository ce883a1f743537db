package llmapi

import (
	"os"
	"strings"
	"testing"
)

func TestSpecs_everyRowIsWhole(t *testing.T) {
	for i := range specs[OpNone+1:] {
		s := &specs[1+i]
		switch {
		case s.Name == "" || !strings.HasPrefix(s.Path, "/") || s.Method != "GET" && s.Method != "POST":
			t.Errorf("operation %d: no name, path or method: %+v", i+1, s)
		case s.Method == "POST" && (s.Fields == 0 || s.Shape == ShapeNone || len(s.PromptFields) == 0):
			t.Errorf("%s: no fields, shape or prompt", s.Path)
		case s.Computes && s.Limit == "":
			t.Errorf("%s: no output limit", s.Path)
		case s.Stream >= NumStreamFormats:
			t.Errorf("%s: stream format %d", s.Path, s.Stream)
		}
		for _, name := range append([]string{s.Limit, s.LimitOpenAI}, s.PromptFields...) {
			if id, ok := fieldByName[name]; name != "" && (!ok || fields[id].in&s.Fields == 0) {
				t.Errorf("%s: field %q is not in its groups", s.Path, name)
			}
		}
	}
}

// TestNames_documents: what describes operations to people names all of them.
func TestNames_documents(t *testing.T) {
	for file, word := range map[string]string{"../../policies/schemas/input.json": "", "../../policies/README.md": "`"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := ""
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, "chat.completions") && strings.Contains(l, "operation") {
				line = l
			}
		}
		for _, n := range Names() {
			if !strings.Contains(line, word+n+word) {
				t.Errorf("%s does not name operation %q", file, n)
			}
		}
	}
}
