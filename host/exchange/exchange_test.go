package exchange

import (
	"testing"
	"time"
)

func TestEnd_everyRowIsFilled(t *testing.T) {
	names := map[string]End{}
	for e := range NumEnds {
		if e.String() == "" || e.Fault() == FaultUnset {
			t.Errorf("end %d has no row", e)
		}
		if other, ok := names[e.String()]; ok {
			t.Errorf("ends %d and %d have the name %q", other, e, e)
		}
		names[e.String()] = e
	}
}

func TestEnd_zeroIsNoSuccess(t *testing.T) {
	for _, o := range []Outcome{{}, {Status: 200}, {Status: 200, End: NumEnds}, {Status: 500, End: EndComplete}} {
		if o.Succeeded() {
			t.Errorf("%+v counts as success", o)
		}
	}
	if o := (Outcome{Status: 201, End: EndComplete}); !o.Succeeded() {
		t.Errorf("%+v is no success", o)
	}
	if End(200).String() != "unset" || End(200).Fault() != FaultRouter {
		t.Error("a value that is no End has another row than EndUnset")
	}
}

func TestTimeouts_Or(t *testing.T) {
	d := DefaultTimeouts()
	got := Timeouts{FirstByte: time.Second, Total: -1}.Or(&d)
	want := d
	want.FirstByte = time.Second
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
