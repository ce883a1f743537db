package analyze

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lru is the plain model: a list of blocks, the last used last.
type lru struct {
	blocks []uint64
	size   int
}

func (l *lru) prompt(chain []uint64) (hits int) {
	for hits < len(chain) && slices.Contains(l.blocks, chain[hits]) {
		hits++
	}
	for _, b := range slices.Backward(chain) {
		if i := slices.Index(l.blocks, b); i >= 0 {
			l.blocks = slices.Delete(l.blocks, i, i+1)
		}
		l.blocks = append(l.blocks, b)
	}
	if n := len(l.blocks) - l.size; n > 0 {
		l.blocks = l.blocks[n:]
	}
	return hits
}

// TestMeasure compares one pass with a simulated cache of each size.
func TestMeasure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var prompts []Prompt
	for range 300 {
		conversation, n := r.Uint64N(12), 1+r.IntN(20)
		chain := make([]uint64, n)
		for i := range chain {
			chain[i] = conversation*100 + uint64(i)
			if i < 3 {
				chain[i] = uint64(i) // shared by all
			}
		}
		prompts = append(prompts, Prompt{Chain: chain, Tokens: n*16 + 5})
	}
	sizes := []int{4 * 16, 10 * 16, 40 * 16, 100 * 16}
	got := Measure(prompts, 16, sizes)
	for k, size := range append(slices.Clone(sizes), 1<<30) {
		l, want := lru{size: size / 16}, 0
		for i := range prompts {
			want += l.prompt(prompts[i].Chain) * 16
		}
		if got.Sizes[k].HitTokens != want {
			t.Errorf("cache of %d tokens: %d hit, want %d", size, got.Sizes[k].HitTokens, want)
		}
	}
	if len(got.Begins) != 300 || got.Begins[0] != 0 || got.Requests != 300 || got.Sizes[4].Ratio < got.Sizes[0].Ratio {
		t.Errorf("got %+v", got)
	}
}

// bodies returns requests with a shared system prompt, which head spoils.
func bodies(n int, head func(i int) string, tools func(i int) string) (out []string) {
	rules := strings.Repeat("Answer in the language of the question. Be short and exact. ", 60)
	for i := range n {
		out = append(out, fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]%s}`,
			head(i)+rules, fmt.Sprintf("Question %d of today", i), tools(i)))
	}
	return out
}

func TestDiverge(t *testing.T) {
	none := func(int) string { return "" }
	uuid := func(i int) string { return fmt.Sprintf("Session 123e4567-e89b-12d3-a456-4266141740%02d. ", i) }
	clock := func(i int) string { return fmt.Sprintf("It is 2026-03-04T05:%02d:00Z. ", i) }
	swap := func(i int) string {
		a, b := `{"type":"function","function":{"name":"a"}}`, `{"type":"function","function":{"name":"b"}}`
		if i%2 == 1 {
			a, b = b, a
		}
		return fmt.Sprintf(`,"tools":[%s,%s]`, a, b)
	}
	for _, c := range []struct {
		name        string
		head, tools func(int) string
		want        string
		least       int
	}{
		{"nothing", none, none, "", 0},
		{"time", clock, none, "time", 19 * 850},
		{"id", uuid, none, "unique id", 19 * 850},
		{"tools", none, swap, "tool order", 850},
	} {
		w, err := Read(strings.NewReader(strings.Join(bodies(20, c.head, c.tools), "\n")))
		if err != nil || w.Format != "openai" || len(w.Prompts) != 20 {
			t.Fatalf("%s: %+v, %v", c.name, w, err)
		}
		causes := Diverge(w.Bodies)
		if c.want == "" {
			if len(causes) != 0 {
				t.Errorf("%s: got %+v", c.name, causes)
			}
			continue
		}
		if len(causes) != 1 || causes[0].Name != c.want || causes[0].GainToken < c.least || causes[0].Prompts != 20 ||
			causes[0].Median > 60 || causes[0].Fix == "" {
			t.Errorf("%s: got %+v", c.name, causes)
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		text, format     string
		prompts, skipped int
	}{
		{`{"timestamp": 0, "input_length": 1025, "output_length": 3, "hash_ids": [0, 7]}` + "\n" +
			`{"timestamp": 10, "input_length": 512, "output_length": 3, "hash_ids": [0]}`, "mooncake", 2, 0},
		{`{"decision_id":"a","path":"kvasir/decision","placement":{"v":1,"exact":true,"prompt_tokens":40,"block_tokens":16,` +
			`"blocks":"AQAAAAAAAgAAAAAA"}}` + "\n" + `{"decision_id":"b","placement":{"v":1}}`, "decision log", 1, 1},
		{`{"c":"x","i":0,"in":128,"out":5,"h":[[1,2]]}`, "weka", 1, 0},
		{`{"body":{"messages":[{"role":"user","content":"hi"}]}}` + "\n" + `{"request":{"prompt":"hi"}}` + "\n{}",
			"openai", 2, 1},
	} {
		w, err := Read(strings.NewReader(c.text))
		if err != nil || w.Format != c.format || len(w.Prompts) != c.prompts || w.Skipped != c.skipped {
			t.Errorf("%.30s: got %+v, %v", c.text, w, err)
		}
	}
	for _, bad := range []string{"", "x", "[1]", `{"messages":[]}` + "\nx", `{"hash_ids":[1,2],"input_length":1}`} {
		if _, err := Read(strings.NewReader(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":"hi"}],"tools":[1,2]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Error(err)
			}
			return
		}
		if w.BlockTokens > 0 {
			Measure(w.Prompts, w.BlockTokens, []int{64})
		}
		Diverge(w.Bodies)
	})
}
