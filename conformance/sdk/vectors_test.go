package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/kvasir-router/kvasir/abi"
)

// TestVectors runs the reference guest, as every SDK builds it, with the golden
// arguments. It writes the bytes into the guest's memory, calls the role and compares the
// memory. It does not use the host's own code for calls.
func TestVectors(t *testing.T) {
	t.Run("c", func(t *testing.T) {
		if _, err := exec.LookPath("clang-19"); err != nil {
			t.Logf("not built: %v", err)
			return
		}
		out := filepath.Join(t.TempDir(), "vectors.wasm")
		if text, err := exec.Command("../../sdk/c/build.sh", "../../sdk/c/vectors/vectors.c",
			out).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		code, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		runVectors(t, code)
	})
	t.Run("rust", func(t *testing.T) {
		if code, ok := buildRust(t, "../../sdk/rust/vectors"); ok {
			runVectors(t, code)
		}
	})
	t.Run("go", func(t *testing.T) { runVectors(t, buildGo(t, "../../sdk/go/vectors")) })
	t.Run("tinygo", func(t *testing.T) {
		if code, ok := buildTinyGo(t, "../../sdk/go/vectors"); ok {
			runVectors(t, code)
		}
	})
}

func runVectors(t *testing.T, code []byte) {
	const dir = "../../abi/vectors/"
	read := func(name string) []byte {
		b, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var all []struct{ Name, Role string }
	if err := json.Unmarshal(read("vectors.json"), &all); err != nil || len(all) == 0 {
		t.Fatal(err, len(all))
	}
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	defer rt.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, rt)
	m, err := rt.InstantiateWithConfig(ctx, code, wazero.NewModuleConfig().WithStartFunctions(abi.ExportInitialize))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		arg, want := read(v.Name+".bin"), read(v.Name+".out.bin")
		r, err := m.ExportedFunction(abi.ExportAlloc).Call(ctx, uint64(len(arg)))
		if err != nil || r[0] == 0 || r[0]%abi.BaseAlign != 0 || !m.Memory().Write(uint32(r[0]), arg) {
			t.Fatalf("%s: alloc gives %v, %v", v.Name, r, err)
		}
		status, err := m.ExportedFunction("kvasir_"+v.Role).Call(ctx, r[0])
		if err != nil || status[0] != abi.StatusOK {
			t.Fatalf("%s: status %v, %v", v.Name, status, err)
		}
		got, _ := m.Memory().Read(uint32(r[0]), uint32(len(want)))
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %x\nwant %x", v.Name, got, want)
		}
	}
}
