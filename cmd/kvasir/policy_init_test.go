package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/policies"
)

// TestPolicyReadme: every command that the policies' README names exists, with
// the flags it is given there.
func TestPolicyReadme(t *testing.T) {
	text, err := policies.FS.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, line := range regexp.MustCompile("kvasir [a-z][^`#\n]*").FindAllString(string(text), -1) {
		words := strings.Fields(line)[1:]
		c, rest, err := root().Find(words)
		if err != nil || !c.Runnable() {
			continue // prose
		}
		found++
		for _, w := range rest {
			name, ok := strings.CutPrefix(w, "--")
			if ok && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: %s has no flag %s", line, c.CommandPath(), w)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d commands were found", found)
	}
}

// TestPolicyInit: what is written is what the router takes.
func TestPolicyInit(t *testing.T) {
	dir := t.TempDir() + "/p"
	for _, args := range [][]string{
		{"policy", "init", dir, "--example", "trust_group,log_mask"},
		{"policy", "check", dir, "--min-coverage", "95"},
	} {
		c := root()
		c.SetArgs(args)
		if err := c.Execute(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	c := root()
	c.SetArgs([]string{"policy", "init", dir})
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("overwritten: %v", err)
	}
}
