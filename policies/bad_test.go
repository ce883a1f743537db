package policies_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/policy"
)

// badCase is a policy that must be refused: the shipped policy with a mistake.
//
// Each file in testdata/bad holds one family of mistakes. A case is a paragraph:
//
//	## name
//	swap FILE: OLD -> NEW     replaces the first OLD; \n is a line's end
//	put FILE:                 writes a file: the lines below that begin with a tab
//	add FILE:                 appends them
//	drop FILE                 deletes a file
//	fill FILE N               writes a file of N bytes
//	fault FILE: MARK          location of the fault: the first line with MARK; no MARK = line 1, or the
//	                          file as a whole; <end> = after the last line, <end>-1 = the last but one
//	what TEXT                 part of what is wrong; empty = anything
//	fix TEXT                  part of the fix
type badCase struct {
	name, file, mark, what, fix string
	edits                       []func(t *testing.T, files map[string][]byte)
}

// readBad reads all families.
func readBad(t *testing.T) []*badCase {
	t.Helper()
	names, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []*badCase
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		family := strings.TrimSuffix(filepath.Base(name), ".txt")
		lines := strings.Split(string(text), "\n")
		for i := 0; i < len(lines); {
			verb, rest, _ := strings.Cut(lines[i], " ")
			i++
			var block []string
			for ; i < len(lines) && strings.HasPrefix(lines[i], "\t"); i++ {
				block = append(block, lines[i][1:])
			}
			switch {
			case verb == "##":
				out = append(out, &badCase{name: family + "/" + rest})
			case verb != "":
				out[len(out)-1].read(t, verb, rest, strings.Join(block, "\n")+"\n")
			}
		}
	}
	return out
}

// read parses one line of a case and the block below it.
func (c *badCase) read(t *testing.T, verb, rest, block string) {
	t.Helper()
	file, text, _ := strings.Cut(rest, ": ")
	file = strings.TrimSuffix(file, ":")
	edit := func(f func(t *testing.T, files map[string][]byte)) { c.edits = append(c.edits, f) }
	switch verb {
	case "fault":
		c.file, c.mark = file, text
	case "what":
		c.what = rest
	case "fix":
		c.fix = rest
	case "swap":
		before, after, ok := strings.Cut(strings.ReplaceAll(text+" ", `\n`, "\n"), " -> ")
		if !ok {
			t.Fatalf("%s: swap without ->", c.name)
		}
		edit(func(t *testing.T, files map[string][]byte) {
			if !bytes.Contains(files[file], []byte(before)) {
				t.Fatalf("%s has no %q", file, before)
			}
			files[file] = bytes.Replace(files[file], []byte(before), []byte(strings.TrimSuffix(after, " ")), 1)
		})
	case "put", "add":
		edit(func(_ *testing.T, files map[string][]byte) {
			if verb == "put" {
				files[file] = nil
			}
			files[file] = append(slices.Clip(files[file]), strings.TrimPrefix(block, "\n")...)
		})
	case "drop":
		edit(func(_ *testing.T, files map[string][]byte) { delete(files, rest) })
	case "fill":
		name, size, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		edit(func(_ *testing.T, files map[string][]byte) { files[name] = bytes.Repeat([]byte{' '}, n) })
	default:
		t.Fatalf("%s: unknown verb %q", c.name, verb)
	}
}

// line is the line of mark in text, 0 without a mark.
func line(t *testing.T, text []byte, mark string) int {
	t.Helper()
	switch mark {
	case "":
		return 0
	case "<end>":
		return 1 + bytes.Count(text, []byte("\n"))
	case "<end>-1":
		return bytes.Count(text, []byte("\n")) - 1
	}
	at := bytes.Index(text, []byte(mark))
	if at < 0 {
		t.Fatalf("missing mark %q", mark)
	}
	return 1 + bytes.Count(text[:at], []byte("\n"))
}

// TestBadPolicies: 200 mistakes, no two of them the same; each is refused with the
// file, the line and a suggested fix.
func TestBadPolicies(t *testing.T) {
	good := files(t)
	mustLoad(t, good)
	seen := map[string]string{}
	cases := readBad(t)
	if len(cases) < 200 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			all := maps.Clone(good)
			for _, edit := range c.edits {
				edit(t, all)
			}
			if other := seen[digest(all)]; other != "" {
				t.Fatalf("is the same as %s", other)
			}
			seen[digest(all)] = c.name
			s, err := load(all)
			var faults policy.Faults
			if err == nil || s != nil || !errors.As(err, &faults) {
				t.Fatalf("loaded, or no list of faults: %v", err)
			}
			if strings.Contains(err.Error(), "see the policy language's reference") {
				t.Errorf("no fix: %v", err)
			}
			want := line(t, all[c.file], c.mark)
			if !slices.ContainsFunc(faults, func(f policy.Fault) bool {
				return f.File == c.file && (f.Line == want || c.mark == "" && f.Line <= 1) && strings.Contains(f.What, c.what) &&
					f.Fix != "" && strings.Contains(f.Fix, c.fix)
			}) {
				t.Errorf("want %s:%d … %s … %s, got\n%v", c.file, want, c.what, c.fix, err)
			}
		})
	}
}
