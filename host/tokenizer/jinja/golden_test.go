package jinja

import (
	"encoding/json"
	"errors"
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
		Renders     map[string][]*string
		Expressions [][2]*string // template, what it renders or nil
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for _, e := range golden.Expressions {
		got, err := render(t, *e[0], Options{}, nil)
		var u *UnsupportedError
		if errors.As(err, &u) {
			t.Logf("%s: %v", *e[0], err)
		} else if e[1] == nil && err == nil || e[1] != nil && (err != nil || got != *e[1]) {
			t.Errorf("%s: %s", *e[0], difference(got, e[1], err))
		}
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
