package oracle

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// goRoot returns the GOROOT of the Go installation that runs the test.
var goRoot = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
})

// goSources calls f with the Go files of GOROOT until f returns false.
func goSources(t testing.TB, f func(text []byte) bool) {
	t.Helper()
	root, err := goRoot()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "table") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(text) || len(text) > 100<<10 {
			return err
		}
		if !f(text) {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Prose returns about n bytes of English: the doc comments of the standard
// library without the leading slashes.
func Prose(t testing.TB, n int) []byte {
	var out []byte
	goSources(t, func(text []byte) bool {
		for line := range bytes.Lines(text) {
			switch {
			case bytes.HasPrefix(line, []byte("// Copyright")), bytes.HasPrefix(line, []byte("// Use of")),
				bytes.HasPrefix(line, []byte("// license")):
			case bytes.HasPrefix(line, []byte("// ")):
				out = append(out, line[3:]...)
			case len(line) == 1 && len(out) > 1 && out[len(out)-2] != '\n':
				out = append(out, '\n')
			}
		}
		return len(out) < n
	})
	return out
}

// Code returns about n bytes of Go source.
func Code(t testing.TB, n int) []byte {
	var out []byte
	goSources(t, func(text []byte) bool {
		out = append(out, text...)
		return len(out) < n
	})
	return out
}

// Languages returns about n bytes in about ninety languages: the translated
// texts of Django, file by file.
func Languages(t testing.TB, n int) []byte {
	t.Helper()
	testdeps.Need(t, "texts", "stamp")
	files, err := filepath.Glob(filepath.Join(testdeps.Cache(t), "texts", "*.po"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no texts (%v): run make deps", err)
	}
	var out []byte
	for i := 0; i < len(files) && len(out) < n; i++ {
		// a stride that is prime to the number of files mixes the languages
		text, err := os.ReadFile(files[i*397%len(files)])
		if err != nil {
			t.Fatal(err)
		}
		out = appendTranslations(out, string(text))
	}
	return out
}

// appendTranslations appends the msgstr texts of a .po file, one per line.
func appendTranslations(dst []byte, po string) []byte {
	in := false
	for line := range strings.Lines(po) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "msgstr") {
			in = true
			line = line[strings.IndexByte(line, ' ')+1:]
		} else if !strings.HasPrefix(line, `"`) {
			if in && len(dst) > 0 && dst[len(dst)-1] != '\n' {
				dst = append(dst, '\n')
			}
			in = false
		}
		if in {
			if s, err := strconv.Unquote(line); err == nil {
				dst = append(dst, s...)
			}
		}
	}
	return dst
}

// Split cuts text into documents of about size bytes, between code points.
func Split(text []byte, size int) [][]byte {
	var docs [][]byte
	for len(text) > 0 {
		n := min(size, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		docs = append(docs, text[:n:n])
		text = text[n:]
	}
	return docs
}
