package sdk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// buildC builds a plugin of one source file with the SDK's script.
func buildC(t *testing.T, src string, flags ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "plugin.wasm")
	if text, err := exec.Command("../../sdk/c/build.sh",
		append([]string{src, out}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestC_each compares a scorer that is written for one candidate, in C and C++, and
// compiled for one and for four candidates at a time, with the same scorer in Go, at
// every stride of the host, with and without terms.
func TestC_each(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Log("clang-19 is not installed: nothing is built")
		return
	}
	rt, err := wasm.New(t.Context(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	const src = "testdata/cguest/each.c"
	cxx := filepath.Join(t.TempDir(), "each.cpp")
	text, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cxx, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		src   string
		flags []string
	}{{src, nil}, {src, []string{"-msimd128"}}, {cxx, []string{"-std=c++17"}},
		{cxx, []string{"-std=c++17", "-msimd128"}}} {
		p, err := rt.Load(t.Context(), buildC(t, b.src, b.flags...), wasm.Options{Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 2, 3, 5, 16, 17, 33, 64, 65, 145, 273, 529, 1041, 2065, abi.MaxCandidates} {
			checkEach(t, fmt.Sprint(filepath.Base(b.src), b.flags, " ", n), p, n)
		}
		if err := p.Score(wasm.SmokeBatch(14, 1), make([]float32, 14), nil); !errors.Is(err, wasm.ErrAbstain) {
			t.Errorf("%s %v: got %v, want an abstention", b.src, b.flags, err)
		}
		p.Close()
	}
}

func checkEach(t *testing.T, name string, p *wasm.Plugin, n int) {
	t.Helper()
	b := wasm.SmokeBatch(n, uint64(n))
	b.Request[abi.ReqObjective] = 2
	plain, scores, terms := make([]float32, n), make([]float32, n), make([]float32, 2*n)
	if err := errors.Join(p.Score(b, plain, nil), p.Score(b, scores, terms)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for i := range n {
		waiting, hit := b.Columns[abi.ColWaiting][i], b.Columns[abi.ColMatchedRatio][i]
		slot, load := float32(b.EndpointIDs[i]&4095), max(min(waiting, 20), 3)
		want := 0 - load
		if hit > 0.5 {
			want = hit * 2
		}
		want = float32(float32(want+float32(2*slot)) + float32(b.PromptTokens))
		if plain[i] != want || scores[i] != want || terms[i] != slot || terms[n+i] != load {
			t.Fatalf("%s: candidate %d: scores %v and %v, terms %v and %v; want %v, %v and %v", name, i, plain[i], scores[i],
				terms[i], terms[n+i], want, slot, load)
		}
	}
}
