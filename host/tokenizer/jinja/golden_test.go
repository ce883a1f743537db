package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRender_golden compares the templates of testdata with what Python made
// of them (golden.json, made by chat/scripts/gen.py golden).
func TestRender_golden(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Conversations []struct {
			N string
			C json.RawMessage
		}
		Renders map[string][]*string
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	rendered, refused := 0, 0
	for file, renders := range golden.Renders {
		src, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(string(src), Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for i, want := range renders {
			got, err := renderConversation(c, source{Bos: "<s>", Eos: "</s>"}, golden.Conversations[i].C)
			switch {
			case want == nil && err != nil:
				refused++
			case want != nil && err == nil && got == *want:
				rendered++
			default:
				t.Errorf("%s, %s: %s", file, golden.Conversations[i].N, difference(got, want, err))
			}
		}
	}
	if rendered < 40 || refused == 0 {
		t.Errorf("%d renders and %d refusals, want more", rendered, refused)
	}
}
