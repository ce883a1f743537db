package replay

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const weka = `{"c":"a","i":0,"in":300,"out":5,"think":0,"tool":64,"sys":64,"h":[[1,4]]}
{"c":"a","i":1,"in":400,"out":6,"think":2.5,"h":[[1,4],[9,2]]}
{"c":"b","i":0,"in":300,"out":5,"think":0,"tool":64,"sys":64,"h":[[1,4]]}
{"c":"d","i":0,"in":300,"out":5,"think":0,"tool":0,"sys":64,"h":[[1,4]]}
`

func TestReadWEKA(t *testing.T) {
	cs, err := ReadWEKA(strings.NewReader(weka), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cs) != 3 || len(cs[0].Requests) != 2 || cs[0].Requests[1].Think != 2.5 || cs[0].Requests[1].Output != 6 {
		t.Fatalf("conversations %+v", cs)
	}
	a, a2, b, d := cs[0].Requests[0].Blocks, cs[0].Requests[1].Blocks, cs[1].Requests[0].Blocks, cs[2].Requests[0].Blocks
	if !reflect.DeepEqual(a, a2[:4]) || len(a2) != 6 {
		t.Errorf("the second request does not continue the first: %v %v", a, a2)
	}
	if a[0] != b[0] || a[1] != b[1] || a[2] == b[2] {
		t.Errorf("want the two tool and system blocks shared, and only those: %v %v", a, b)
	}
	if a[0] == d[0] {
		t.Errorf("another tool prompt shares a block")
	}
}

func TestReadWEKA_filter(t *testing.T) {
	for _, tc := range []struct {
		f    Filter
		want int
	}{{Filter{MinRequests: 2}, 1}, {Filter{MaxRequests: 1}, 2}, {Filter{MaxBlocks: 5}, 2}, {Filter{Conversations: 1}, 1},
		{Filter{MinRequests: 3}, 0}} {
		cs, err := ReadWEKA(strings.NewReader(weka), tc.f)
		if err != nil || len(cs) != tc.want {
			t.Errorf("%+v: %d conversations, error %v, want %d", tc.f, len(cs), err, tc.want)
		}
	}
}

func TestReadWEKA_bad(t *testing.T) {
	for _, s := range []string{"{", `{"c":"a","h":[[1,-4]]}`, `{"c":"a","h":[[1,99999999]]}`} {
		if _, err := ReadWEKA(strings.NewReader(s), Filter{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", s, err)
		}
	}
}

func TestIdeal(t *testing.T) {
	hit, total := Ideal([][]uint64{{1, 2, 3}, {1, 2, 4}, {1, 2, 4, 5}, {2, 3}})
	if hit != 5 || total != 12 { // 2 of the second, 3 of the third; a block elsewhere in the chain is no hit
		t.Errorf("Ideal = %d of %d, want 5 of 12", hit, total)
	}
}

func TestGenerate(t *testing.T) {
	cs := Generate(7, Shape{})
	if !reflect.DeepEqual(cs, Generate(7, Shape{})) {
		t.Error("the same seed makes another workload")
	}
	var order [][]uint64
	for i := 0; ; i++ {
		any := false
		for _, c := range cs {
			if i < len(c.Requests) {
				order, any = append(order, c.Requests[i].Blocks), true
			}
		}
		if !any {
			break
		}
	}
	// The recorded trace repeats 96 % of its blocks within a conversation over
	// all lengths; conversations of 8 to 30 requests 85 to 95 %.
	if hit, total := Ideal(order); float64(hit)/float64(total) < 0.85 || float64(hit)/float64(total) > 0.97 {
		t.Errorf("ideal hit %d of %d", hit, total)
	}
}
