package replay

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestReadMooncake(t *testing.T) {
	tr, err := ReadMooncake(strings.NewReader(
		`{"timestamp": 3000, "input_length": 1025, "output_length": 0, "hash_ids": [0, 7, 8]}
{"timestamp": 0, "input_length": 512, "output_length": 52, "hash_ids": [0]}
`))
	if err != nil {
		t.Fatal(err)
	}
	l := tr.Spread(7).Conversations
	if len(l) != 2 || l[0].Start < 0 || l[0].Start >= 3 || l[1].Start < 3 || l[1].Start >= 6 {
		t.Fatalf("conversations %+v", l)
	}
	if r := l[1].Requests[0]; r.Tokens != 1025 || r.Output != 1 || len(r.Blocks) != 3 ||
		r.Blocks[0] != l[0].Requests[0].Blocks[0] {
		t.Errorf("request %+v", r)
	}
	for _, bad := range []string{`{`, `{"timestamp":-1,"input_length":1,"hash_ids":[]}`, `{"input_length":0}`,
		`{"input_length":1,"output_length":-3}`, `{"input_length":1,"hash_ids":[1,2]}`} {
		if _, err := ReadMooncake(strings.NewReader(bad)); !errors.Is(err, ErrFormat) ||
			!strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestReadWEKA_cut(t *testing.T) {
	const two = `{"c":"x","i":0,"in":128,"out":5,"h":[[1,2]]}
{"c":"x","i":1,"in":6400,"out":5,"h":[[1,100]]}
{"c":"x","i":2,"in":128,"out":5,"h":[[1,2]]}
{"c":"y","i":0,"in":64,"out":5,"h":[[1,1]]}
`
	l, err := ReadWEKA(strings.NewReader(two), Filter{CutBlocks: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(l) != 2 || len(l[0].Requests) != 1 || len(l[1].Requests) != 1 {
		t.Errorf("cut: %+v", l)
	}
	if l, _ = ReadWEKA(strings.NewReader(two), Filter{MaxBlocks: 10}); len(l) != 1 || l[0].Name != "y" {
		t.Errorf("left out: %+v", l)
	}
}

func FuzzReadMooncake(f *testing.F) {
	f.Add([]byte(`{"timestamp": 3000, "input_length": 1025, "output_length": 3, "hash_ids": [0, 7, 8]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := ReadMooncake(bytes.NewReader(b)); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}
