package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	kvasir "github.com/kvasir-router/kvasir/sdk/go"
)

// TestVectors runs the reference guest on every golden argument, natively.
func TestVectors(t *testing.T) {
	const dir = "../../../abi/vectors/"
	text, err := os.ReadFile(dir + "vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ Name, Role string }
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		t.Fatal(err, len(all))
	}
	for _, v := range all {
		arg, err := os.ReadFile(dir + v.Name + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(dir + v.Name + ".out.bin")
		if err != nil {
			t.Fatal(err)
		}
		if status, text := kvasir.Call(v.Role, arg); status != kvasir.StatusOK {
			t.Fatalf("%s: status %d, %s", v.Name, status, text)
		}
		if !bytes.Equal(arg, want) {
			for i := range want {
				if arg[i] != want[i] {
					t.Errorf("%s: byte %d is %#x, want %#x", v.Name, i, arg[i], want[i])
					break
				}
			}
		}
	}
}
