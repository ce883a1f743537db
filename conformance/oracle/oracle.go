// Package oracle provides the results of Hugging Face tokenizers to tests. It finds the
// files that scripts/deps.sh installs, generates texts to compare, and runs the library
// to get their ids. Only tests import it.
package oracle

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// Dir returns the folder of a published tokenizer: qwen3, llama3_1, gptoss, gpt4o
// or gpt2.
func Dir(t testing.TB, name string) string {
	t.Helper()
	return filepath.Dir(testdeps.Need(t, "tokenizers", name, "tokenizer.json"))
}

// Python returns the interpreter that has Hugging Face tokenizers.
func Python(t testing.TB) string {
	t.Helper()
	testdeps.Need(t, "venv-tokenizers", "stamp")
	return testdeps.Need(t, "venv-tokenizers", "bin", "python")
}

// Script returns the path of a script of host/tokenizer/scripts. It finds the module
// from the working folder, since a binary built with -trimpath does not know its sources.
func Script(name string) string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	return filepath.Join(dir, "host", "tokenizer", "scripts", name)
}

// IDs returns the token ids of each document of docs, as Hugging Face encodes it with a
// tokenizer.json, without special tokens. It caches the answer under a hash of all inputs.
func IDs(t testing.TB, tokenizerJSON string, docs [][]byte) [][]uint32 {
	t.Helper()
	python := Python(t)
	list := marshal(docs)
	out := filepath.Join(testdeps.Cache(t), "oracle", key(t, tokenizerJSON, list)+".ids")
	raw, err := os.ReadFile(out)
	if err != nil {
		if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
			t.Fatal(err)
		}
		in := filepath.Join(t.TempDir(), "docs")
		if err := os.WriteFile(in, list, 0o644); err != nil {
			t.Fatal(err)
		}
		if msg, err := exec.Command(python, Script("oracle.py"), tokenizerJSON, in, out).CombinedOutput(); err != nil {
			t.Fatalf("oracle.py: %v: %s", err, msg)
		}
		if raw, err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	return unmarshal(t, raw, len(docs))
}

// key returns the name of an answer: a hash of the tokenizer, the script, the library's
// version and the texts.
func key(t testing.TB, tokenizerJSON string, list []byte) string {
	t.Helper()
	h := sha256.New()
	for _, path := range []string{tokenizerJSON, Script("oracle.py"), testdeps.Need(t, "venv-tokenizers", "stamp")} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(h, f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	h.Write(list)
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

func marshal(docs [][]byte) []byte {
	var list []byte
	for _, d := range docs {
		list = binary.LittleEndian.AppendUint32(list, uint32(len(d)))
		list = append(list, d...)
	}
	return list
}

func unmarshal(t testing.TB, raw []byte, n int) [][]uint32 {
	t.Helper()
	ids := make([][]uint32, n)
	for i := range ids {
		if len(raw) < 4 {
			t.Fatal("oracle: answer cut short")
		}
		k := int(binary.LittleEndian.Uint32(raw))
		raw = raw[4:]
		if len(raw) < 4*k {
			t.Fatal("oracle: answer cut short")
		}
		ids[i] = make([]uint32, k)
		for j := range ids[i] {
			ids[i][j] = binary.LittleEndian.Uint32(raw[4*j:])
		}
		raw = raw[4*k:]
	}
	if len(raw) != 0 {
		t.Fatal("oracle: trailing bytes in the answer")
	}
	return ids
}
