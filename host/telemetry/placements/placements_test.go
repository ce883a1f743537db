package placements

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestKey_chain(t *testing.T) {
	k := NewKey()
	hashes := make([]uint64, 5*MaxBlocks)
	for i := range hashes {
		hashes[i] = uint64(i) * 0x9E3779B97F4A7C15
	}
	for _, c := range []struct{ n, step, want int }{
		{0, 16, 0}, {3, 16, 3}, {MaxBlocks, 16, MaxBlocks}, {MaxBlocks + 1, 32, MaxBlocks / 2},
		{2*MaxBlocks + 2, 64, MaxBlocks / 2}, {5 * MaxBlocks, 128, 5 * MaxBlocks / 8},
	} {
		got, step := k.Chain(hashes[:c.n], 16)
		if len(got) != c.want || step != c.step {
			t.Errorf("%d blocks: %d hashes of %d tokens, want %d of %d", c.n, len(got), step, c.want, c.step)
		}
		for i, h := range got {
			if want := k.Hash(hashes[(i+1)*step/16-1]); h != want {
				t.Fatalf("%d blocks: hash %d is %x, want %x", c.n, i, h, want)
			}
		}
	}
	if other := NewKey(); other.ID() == k.ID() || other.Hash(hashes[1]) == k.Hash(hashes[1]) {
		t.Error("two keys give the same hashes")
	}
}

// TestEvery compares a short prompt with a long one that begins with it.
func TestEvery(t *testing.T) {
	k := NewKey()
	hashes := make([]uint64, 4*MaxBlocks)
	for i := range hashes {
		hashes[i] = uint64(i) + 1
	}
	var short, long Placement
	short.Blocks, short.BlockTokens = k.Chain(hashes[:100], 16)
	long.Blocks, long.BlockTokens = k.Chain(hashes, 16)
	a, b := short.Every(64), long.Every(64)
	if len(a) != 25 || !reflect.DeepEqual(a, b[:25]) {
		t.Errorf("got %d hashes that differ from the long prompt's", len(a))
	}
	if long.Every(16) != nil || long.Every(96) != nil {
		t.Error("hashes between those that were kept")
	}
}

func TestChain_json(t *testing.T) {
	for _, want := range []Chain{{}, {1}, {0xffffffffffff, 0, 0x123456789abc}} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Chain
		if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", b, got, err, want)
		}
	}
	for _, bad := range []string{`"A"`, `"AAAA"`, `"!!!!!!!!"`, `"` + strings.Repeat("AAAAAAAA", MaxBlocks+1) + `"`} {
		var c Chain
		if json.Unmarshal([]byte(bad), &c) == nil {
			t.Errorf("%.20s is accepted", bad)
		}
	}
}

const log = `{"decision_id":"a","timestamp":"2026-01-02T03:04:05.5Z","path":"kvasir/decision","request_id":"r1",` +
	`"tenant":"t","namespace":"n","placement":{"v":1,"model":"m","prompt_tokens":40,"exact":true,` +
	`"block_tokens":16,"blocks":"AQAAAAAAAgAAAAAA","candidates":[{"endpoint":"http://e1","state":"kept",` +
	`"matched_tokens":{"gpu":16},"columns":{"inflight":2},"total":-3}]}}` + "\n" +
	`{"decision_id":"x","timestamp":"2026-01-02T03:04:05.6Z","path":"kvasir/decision",` +
	`"request_id":"denied","tenant":"t"}` + "\n" +
	`{"decision_id":"b","timestamp":"2026-01-02T03:04:06Z","path":"kvasir/decision","request_id":"r2",` +
	`"tenant":"t","placement":{"v":1}}` + "\n" +
	`{"decision_id":"b","path":"kvasir/outcome","outcome":{"endpoint":"http://e2","status":200,` +
	`"ttft_ms":3}}` + "\n" +
	`{"decision_id":"zz","path":"kvasir/outcome","outcome":{"status":200}}` + "\n" +
	`{"decision_id":"a","path":"kvasir/outcome","outcome":{"endpoint":"http://e1","status":200,` +
	`"output_tokens":7}}` + "\n" +
	`{"decision_id":"c","timestamp":"2026-01-02T03:04:07Z","path":"kvasir/decision","request_id":"r3",` +
	`"tenant":"t","placement":{"v":1}}` + "\n"

func TestRead(t *testing.T) {
	var got []*Record
	if err := Read(strings.NewReader(log), func(r *Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].RequestID != "r1" || got[1].RequestID != "r2" || got[2].RequestID != "r3" {
		t.Fatalf("got %+v", got)
	}
	a := got[0]
	if a.Tenant != "t" || a.Namespace != "n" || a.Placement.PromptTokens != 40 || a.Time.Year() != 2026 ||
		!reflect.DeepEqual(a.Placement.Blocks, Chain{1, 2}) || a.Placement.Candidates[0].Columns["inflight"] != 2 {
		t.Errorf("got %+v", a)
	}
	if a.Outcome == nil || a.Outcome.OutputTokens == nil || *a.Outcome.OutputTokens != 7 || got[1].Outcome.TTFTMS != 3 ||
		got[2].Outcome != nil {
		t.Errorf("outcomes %+v, %+v, %+v", a.Outcome, got[1].Outcome, got[2].Outcome)
	}
	for _, bad := range []string{"{", `{"placement":{"v":2}}`, `{"placement":{"v":1,"blocks":"A"}}`} {
		err := Read(strings.NewReader("{}\n"+bad+"\n"), func(*Record) error { return nil })
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	stop := errors.New("stop")
	if err := Read(strings.NewReader(log), func(*Record) error { return stop }); err != stop {
		t.Errorf("got %v, want the error of f", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(log))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Read(bytes.NewReader(b), func(*Record) error { return nil })
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}
