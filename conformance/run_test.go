package conformance_test

import (
	"testing"

	"github.com/kvasir-router/kvasir/conformance"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestRun runs the suite on the host of the example, so that what it shows works.
func TestRun(t *testing.T) {
	engine, err := wasm.New(t.Context(), wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	conformance.Run(t, myHost{engine})
}
