package backend

import (
	"net"
	"testing"
)

func TestDialsUs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "tcp://" + l.Addr().String()
	if dialsUs(t.Context(), address) {
		t.Error("an engine that listens is taken for one that dials")
	}
	l.Close()
	if !dialsUs(t.Context(), address) {
		t.Error("an address of this machine without a listener does not count as one that the engine dials")
	}
	for _, a := range []string{"tcp://192.0.2.1:5557", "tcp://nonsense", "tcp://engine.invalid:1"} {
		if dialsUs(t.Context(), a) {
			t.Errorf("%s is not ours to listen on", a)
		}
	}
}
