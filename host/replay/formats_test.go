package replay

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/telemetry/placements"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// bytePrompter counts every byte of a body as a token.
type bytePrompter struct{}

func (bytePrompter) Blocks(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error {
	p.Reset()
	if bytes.Contains(r.Body, []byte("image")) {
		p.Reason = "an image"
		return nil
	}
	p.Exact, p.Tokens = true, len(r.Body)
	h := uint64(0)
	for i := q.Sizes[0]; i <= len(r.Body); i += q.Sizes[0] {
		for _, b := range r.Body[i-q.Sizes[0] : i] {
			h = mix(h, uint64(b))
		}
		p.Chains[0] = append(p.Chains[0], h)
	}
	return nil
}

func readOpenAI(text string) (*Trace, error) {
	return ReadOpenAI(strings.NewReader(text), bytePrompter{})
}

func TestReadOpenAI(t *testing.T) {
	body := func(text string) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"model":"m","max_tokens":7}`, text)
	}
	long := strings.Repeat("x", 100)
	tr, err := readOpenAI(`{"timestamp":"2026-01-01T00:00:02Z","conversation":"a","tenant":"t","body":` +
		body(long) + "}\n\n" +
		`{"timestamp":1767225600.5,"body":` + body("image") + `,"output_tokens":9}` + "\n" +
		`{"timestamp":1767225605,"conversation":"a","tenant":"t","think":1.5,"url":"/v1/chat/completions","body":` +
		body(long+long) + "}\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Conversations) != 2 || tr.Turnless || tr.BlockTokens != OpenAIBlock {
		t.Fatalf("%+v", tr)
	}
	first, a := tr.Conversations[0], tr.Conversations[1]
	if first.Start != 0 || a.Start != 1.5 || a.Name != "a" || a.Tenant != "t" || len(a.Requests) != 2 {
		t.Errorf("%+v", tr.Conversations)
	}
	if q := first.Requests[0]; len(q.Blocks) != 0 || q.Output != 9 || q.Tokens < 10 {
		t.Errorf("request with an image: %+v", q)
	}
	if p, q := a.Requests[0], a.Requests[1]; q.Think != 1.5 || p.Output != 7 || p.Tokens != len(body(long)) ||
		!reflect.DeepEqual(p.Blocks[:8], q.Blocks[:8]) || len(q.Blocks) <= len(p.Blocks) {
		t.Errorf("requests %+v, %+v", p, q)
	}
	if tr, err = readOpenAI(body("plain") + "\n"); err != nil || tr.Requests() != 1 || !tr.Turnless {
		t.Errorf("a plain body: %+v, %v", tr, err)
	}
	for bad, want := range map[string]string{
		"{":                              "line 1",
		`{"body":{},"url":"/v1/x"}`:      `url "/v1/x"`,
		`{"body":{},"timestamp":"noon"}`: "want seconds or RFC 3339",
		`{"body":{},"think":-1}`:         "think -1",
		`{"body":[]}`:                    "line 1",
	} {
		if _, err := readOpenAI(bad + "\n"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", bad, err, want)
		}
	}
}

const azureHead = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

func TestReadAzure(t *testing.T) {
	tr, err := ReadAzure(strings.NewReader(azureHead + "2023-11-16 18:17:03.9799600,4808,10\r\n" +
		"2023-11-16 18:17:05.4799600,110,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c := tr.Conversations; len(c) != 2 || c[1].Start != 1.5 || c[0].Requests[0].Tokens != 4808 ||
		c[1].Requests[0].Output != 1 {
		t.Errorf("%+v", c)
	}
	for bad, want := range map[string]string{
		"a,b\n":                                         "want the columns",
		azureHead + "2023-11-16 18:17:03,x,1\n":         `"x" and "1" tokens`,
		azureHead + "18:17,1,1\n":                       `time "18:17"`,
		azureHead + "2023-11-16 18:17:03,1\n":           "line 2: 2 columns",
		azureHead + "\n2023-11-16 18:17:03.1,-4,1\n":    "line 3",
		azureHead + "2023-11-16 18:17:03.1,1,999999999": "999999999",
	} {
		if _, err := ReadAzure(strings.NewReader(bad)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", bad, err, want)
		}
	}
}

// decisionsText is a decision log with three placements and one outcome.
func decisionsText() string {
	placement := func(id, second, key string, step int, blocks ...uint64) string {
		c, _ := placements.Chain(blocks).MarshalText()
		return fmt.Sprintf(`{"decision_id":%q,"timestamp":"2026-01-01T00:00:0%sZ","request_id":"r%s","tenant":"a",`+
			`"placement":{"v":%d,"prompt_tokens":90,"exact":true,"key":%q,"block_tokens":%d,"blocks":%q}}`+"\n", id, second, id,
			placements.Version, key, step, c)
	}
	return placement("1", "1", "k", 16, 1, 2, 3, 4) +
		fmt.Sprintf(`{"decision_id":"1","path":%q,"outcome":{"output_tokens":33}}`+"\n", placements.OutcomePath) +
		placement("2", "3", "k", 32, 2, 4) + placement("3", "4", "other", 16, 1, 2)
}

// TestReadDecisions: requests with blocks of different sizes share their prefix at the
// greater size; those of another key share nothing.
func TestReadDecisions(t *testing.T) {
	tr, err := ReadDecisions(strings.NewReader(decisionsText()))
	if err != nil {
		t.Fatal(err)
	}
	c := tr.Conversations
	if len(c) != 3 || tr.BlockTokens != 32 || c[1].Start != 2 || c[0].Requests[0].Output != 33 || c[0].Tenant != "a" {
		t.Fatalf("%+v", tr)
	}
	a, b, other := c[0].Requests[0].Blocks, c[1].Requests[0].Blocks, c[2].Requests[0].Blocks
	if len(a) != 2 || !reflect.DeepEqual(a, b) || len(other) != 1 || other[0] == a[0] {
		t.Errorf("blocks %x, %x, %x", a, b, other)
	}
	_, err = ReadDecisions(strings.NewReader("{\n"))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("error %v", err)
	}
}

// TestWriteMooncake: what is written is read again as it was.
func TestWriteMooncake(t *testing.T) {
	for _, g := range []*Trace{Burst{Clients: 5, Turns: 3, Think: 1}.Generate(1), Tenants{Conversations: 20}.Generate(2)} {
		var b bytes.Buffer
		if err := WriteMooncake(&b, g); err != nil {
			t.Fatal(err)
		}
		got, err := ReadMooncake(&b)
		if err != nil {
			t.Fatal(err)
		}
		if got.BlockTokens != g.BlockTokens || got.SlotSeconds != 0 || len(got.Conversations) != len(g.Conversations) ||
			got.Turnless || IdealHit(got) != IdealHit(g) {
			t.Fatalf("%s: %d conversations, ideal %g, want %d and %g", g.Name, len(got.Conversations), IdealHit(got),
				len(g.Conversations), IdealHit(g))
		}
		for i := range g.Conversations {
			a, b := &g.Conversations[i], &got.Conversations[i]
			if a.Name != b.Name || a.Tenant != b.Tenant || len(a.Requests) != len(b.Requests) {
				t.Fatalf("%+v\n%+v", a, b)
			}
			for k := range a.Requests {
				p, q := a.Requests[k], b.Requests[k]
				if p.Tokens != q.Tokens || p.Output != q.Output || p.Think != q.Think || len(p.Blocks) != len(q.Blocks) {
					t.Fatalf("%+v\n%+v", p, q)
				}
			}
		}
	}
}

func FuzzReadOpenAI(f *testing.F) {
	f.Add([]byte(`{"timestamp":"2026-01-01T00:00:02Z","conversation":"a","body":{"messages":[],"max_tokens":3}}`))
	f.Add([]byte(`{"prompt":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) { checkRead(t)(readOpenAI(string(b))) })
}

func FuzzReadAzure(f *testing.F) {
	f.Add([]byte(azureHead + "2023-11-16 18:17:03.9799600,4808,10\n"))
	f.Fuzz(func(t *testing.T, b []byte) { checkRead(t)(ReadAzure(bytes.NewReader(b))) })
}

func FuzzReadDecisions(f *testing.F) {
	f.Add([]byte(decisionsText()))
	f.Fuzz(func(t *testing.T, b []byte) { checkRead(t)(ReadDecisions(bytes.NewReader(b))) })
}

func FuzzReadWEKA(f *testing.F) {
	f.Add([]byte(weka))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadWEKA(bytes.NewReader(b), Filter{})
		checkRead(t)(&Trace{BlockTokens: WEKABlock, Conversations: c}, err)
	})
}

// checkRead checks what a reader returned: an error of the format, or a trace that can be
// run.
func checkRead(t *testing.T) func(tr *Trace, err error) {
	return func(tr *Trace, err error) {
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Error(err)
			}
			return
		}
		if hit := IdealHit(tr.Spread(1)); hit < 0 || hit > 1 {
			t.Errorf("ideal hit %g", hit)
		}
	}
}
