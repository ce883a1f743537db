package dialect

import "testing"

// TestVLLM_salted: a release counts as honouring salts from where it was seen to,
// one kind of request after the other.
func TestVLLM_salted(t *testing.T) {
	for version, want := range map[string]Fields{
		"0.9.2": 0, "0.10.1.1": 0, "0.11.0": Computed &^ Messages, "0.31.2": Computed &^ Messages, "0.32.0": Computed,
		"0.32.1rc1": Computed, "1.0.0": Computed,
		"0.1.dev1+g1234": Computed, "": Computed,
	} {
		for in := Chat; in <= Count; in <<= 1 {
			if got := vllm.Salted(in, version); got != (want&in != 0) {
				t.Errorf("%q, requests %b: salted %v", version, in, got)
			}
		}
	}
}

// TestParseSources_dials: vLLM dials an address without a wildcard.
func TestParseSources_dials(t *testing.T) {
	for address, want := range map[string]bool{"tcp://*:5557": false, "tcp://[::]:5557": false,
		"tcp://127.0.0.1:5557": true, "tcp://10.0.0.9:5557": true} {
		got, err := parseSources([]byte(`{"0":{"publisher":"zmq","endpoint":"`+address+`"}}`), "127.0.0.1")
		if err != nil || len(got) != 1 || got[0].Dials != want {
			t.Errorf("%s: %+v, %v, want dials %t", address, got, err, want)
		}
	}
}
