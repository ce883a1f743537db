package wasm

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// smith compares the forms of modules that wasm-smith makes, a generator with
// which the Bytecode Alliance tests Wasmtime, from seed on until stop. Without the
// program, which scripts/deps.sh makes, it does nothing.
func smith(t *testing.T, seed uint64, stop func(n int) bool) {
	t.Helper()
	program, err := exec.LookPath(filepath.Join(testdeps.Cache(t), "smith", "release", "smith"))
	if err != nil {
		t.Logf("no foreign modules (host/wasm/scripts/deps.sh makes them): %v", err)
		return
	}
	const batch = 100
	e, s := newEngine(t), &seen{opcodes: map[[2]uint32]int{}}
	refused := map[string]int{}
	for n := 0; !stop(n); n += batch {
		cmd := exec.CommandContext(t.Context(), program, strconv.FormatUint(seed+uint64(n), 10), strconv.Itoa(batch))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		for i := range batch {
			code := readModule(t, r)
			if !e.accepts(code) {
				refused["by the engine"]++
				continue
			}
			s.count(code)
			if err := e.compare(code, s); err != nil {
				t.Fatalf("smith %d 1: %v\nmodule %s", seed+uint64(n+i), err, hex.EncodeToString(code))
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v; refused %v", s, refused)
	if s.modules == 0 {
		t.Error("no module could be compared")
	}
}

func readModule(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var n uint32
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		t.Fatal(err)
	}
	code := make([]byte, n)
	if _, err := io.ReadFull(r, code); err != nil {
		t.Fatal(err)
	}
	return code
}

// TestRewriteFuel_smith: modules that wasm-smith generated.
func TestRewriteFuel_smith(t *testing.T) {
	count := 1000
	if testing.Short() || testdeps.Race {
		count = 1
	}
	smith(t, 1, func(n int) bool { return n >= count })
}
