package chat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat/parity"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

var clock = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func now() time.Time { return clock }

// demoModel returns the demo model with a given configuration.
func demoModel(t testing.TB, set func(*chat.Config)) *chat.Model {
	t.Helper()
	enc, err := demo.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	cfg := chat.Config{Files: demo.Files(), Encoder: enc, CacheIdentity: "demo", Now: now, CheckEvery: -1}
	if set != nil {
		set(&cfg)
	}
	m, err := chat.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func scan(t testing.TB, op llmapi.Operation, body []byte) *llmapi.Request {
	t.Helper()
	r := new(llmapi.Request)
	if err := r.Scan(op, body); err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return r
}

// wantPrompt computes the prompt of r whole and hashes it in the test.
func wantPrompt(m *chat.Model, identity string, r *llmapi.Request, q *tokenizer.Query) (tokenizer.Prompt, error) {
	var p tokenizer.Prompt
	ids, err := m.Tokens(r, nil)
	if err != nil {
		return p, err
	}
	p.Tokens, p.Exact = len(ids), true
	for i, size := range q.Sizes {
		p.Chains[i], _ = blockhash.Append(nil, blockhash.Seed(identity, q.Adapter, q.Salt), ids, size)
	}
	return p, nil
}

// same describes how got differs from want, "" if it does not.
func same(got, want *tokenizer.Prompt) string {
	if got.Exact != want.Exact || got.Tokens != want.Tokens {
		return fmt.Sprintf("exact %v (%s), %d tokens, want %v, %d", got.Exact, got.Reason, got.Tokens, want.Exact,
			want.Tokens)
	}
	for i := range got.Chains {
		if !slices.Equal(got.Chains[i], want.Chains[i]) {
			return fmt.Sprintf("chain %d of %d hashes differs from %d", i, len(got.Chains[i]), len(want.Chains[i]))
		}
	}
	return ""
}

// ask sends a body through the memo and compares the result with the whole computation.
func ask(t testing.TB, m *chat.Model, op llmapi.Operation, body []byte, q *tokenizer.Query, p *tokenizer.Prompt) {
	t.Helper()
	r := scan(t, op, body)
	if err := m.Blocks(r, q, p); err != nil {
		t.Fatal(err)
	}
	want, err := wantPrompt(m, "demo", r, q)
	if err != nil {
		if p.Exact {
			t.Fatalf("exact although %v", err)
		}
		return
	}
	if d := same(p, &want); d != "" {
		t.Fatalf("%s\nbody %.400s", d, body)
	}
}

// templates exercise the memos: the demo's, one that puts the system prompt and
// the last message at other positions, and one without any special token.
var templates = map[string]string{
	"demo": "",
	"moving": `{% for m in messages %}<|im_start|>{{ m.role }}
{% if loop.last %}{{ messages[0].content }}|{% endif %}{{ m.content | trim }}` +
		`{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|im_end|>
{% endfor %}{{ messages | length }}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{{ strftime_now('%d') }}`,
	"bare": `{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ ' ' }}{% endfor %}`,
	"shuffle": `{% for m in messages | reverse %}{{ (m.content or '')[3:] }}<|im_end|>{{ m.content | replace('o', ` +
		`'0') }}{{ m.content | upper | length }}{% endfor %}`,
	"parts": `{% for m in messages %}<|im_start|>{% for c in m.content %}{{ c.text }}{{ c.text.split('\n') | last ` +
		`}}{% endfor %}<|im_end|>{% endfor %}`,
}

// TestBlocks_turns sends conversations turn by turn, in a random order, through
// one memo that is never dropped. Every prompt must equal that of the whole
// computation, for every template and several block sizes.
func TestBlocks_turns(t *testing.T) {
	testdeps.Sequential(t)
	for name, src := range templates {
		t.Run(name, func(t *testing.T) {
			m := demoModel(t, func(c *chat.Config) { c.Template = src })
			q := &tokenizer.Query{Sizes: []int{16, 1, 64, 7}}
			r := rand.New(rand.NewPCG(7, 7))
			all := parity.Conversations(3, 77)
			turn := make([]int, len(all))
			var p tokenizer.Prompt
			for range 900 {
				i := r.IntN(len(all))
				c := &all[i]
				if turn[i]++; turn[i] > len(c.Messages) {
					turn[i] = 1
				}
				ask(t, m, llmapi.OpChat, c.Body("m", turn[i]), q, &p)
			}
			if s := m.Stats(); s.PiecesFound == 0 && name != "shuffle" || s.ValuesGuessed == 0 {
				t.Errorf("the memo was not used: %+v", s)
			}
		})
	}
}

// TestBlocks_sizes changes the block sizes from request to request.
func TestBlocks_sizes(t *testing.T) {
	m := demoModel(t, nil)
	c := parity.Conversations(5, 1)[0]
	var p tokenizer.Prompt
	for _, sizes := range [][]int{{16}, {32, 16}, {16}, {128}, {8, 4}, {16, 32, 64, 128}, {256}, {1024, 1}} {
		for n := 1; n <= len(c.Messages); n++ {
			ask(t, m, llmapi.OpChat, c.Body("m", n), &tokenizer.Query{Sizes: sizes}, &p)
		}
	}
	for _, sizes := range [][]int{nil, {0}, {16, 16}, {2048}, {1, 2, 3, 4, 5}} {
		if err := m.Blocks(scan(t, llmapi.OpChat, c.Body("m", 1)), &tokenizer.Query{Sizes: sizes}, &p); err == nil {
			t.Errorf("sizes %v were accepted", sizes)
		}
	}
}

// TestBlocks_isolation sends one conversation in two namespaces: the second
// finds nothing of the first, and no hash is the same.
func TestBlocks_isolation(t *testing.T) {
	m := demoModel(t, nil)
	c := parity.Conversations(8, 8)[7]
	body := c.Body("m", len(c.Messages))
	var a, b, again tokenizer.Prompt
	ask(t, m, llmapi.OpChat, body, &tokenizer.Query{Salt: "a", Sizes: []int{16}}, &a)
	before := m.Stats()
	ask(t, m, llmapi.OpChat, body, &tokenizer.Query{Salt: "b", Sizes: []int{16}}, &b)
	after := m.Stats()
	if after.PiecesFound != before.PiecesFound || after.ValuesGuessed != before.ValuesGuessed ||
		after.ValuesFound != before.ValuesFound {
		t.Errorf("a namespace found content of another: %+v, then %+v", before, after)
	}
	if after.PiecesNew != 2*before.PiecesNew || after.Namespaces != 2 {
		t.Errorf("%d pieces and %d namespaces, want %d and 2", after.PiecesNew, after.Namespaces, 2*before.PiecesNew)
	}
	for _, h := range a.Chains[0] {
		if slices.Contains(b.Chains[0], h) {
			t.Error("two namespaces share a block hash")
		}
	}
	ask(t, m, llmapi.OpChat, body, &tokenizer.Query{Salt: "a", Sizes: []int{16}}, &again)
	if s := m.Stats(); s.PiecesNew != after.PiecesNew || s.ValuesDecoded != after.ValuesDecoded {
		t.Error("the first namespace lost its content")
	}
	ask(t, m, llmapi.OpChat, body, &tokenizer.Query{Salt: "a", Adapter: "lora", Sizes: []int{16}}, &b)
	if slices.Equal(a.Chains[0], b.Chains[0]) {
		t.Error("an adapter shares block hashes")
	}
}

// TestBlocks_budget keeps the memos within tiny budgets for any requests, and
// exact.
func TestBlocks_budget(t *testing.T) {
	testdeps.Sequential(t)
	for _, budget := range []int64{1, 20_000, 200_000, 2_000_000} {
		m := demoModel(t, func(c *chat.Config) { c.BudgetBytes = budget })
		r := rand.New(rand.NewPCG(1, uint64(budget)))
		all := parity.Conversations(9, 44)
		var p tokenizer.Prompt
		for i := range 400 {
			c := &all[r.IntN(len(all))]
			q := &tokenizer.Query{Salt: fmt.Sprint(r.IntN(5)), Sizes: []int{16}}
			ask(t, m, llmapi.OpChat, c.Body("m", 1+r.IntN(len(c.Messages))), q, &p)
			if s := m.Stats(); s.Bytes > budget || s.Bytes < 0 {
				t.Fatalf("budget %d, request %d: %d bytes in %d namespaces", budget, i, s.Bytes, s.Namespaces)
			}
		}
		if s := m.Stats(); s.Evictions == 0 && s.Namespaces > 0 {
			t.Errorf("budget %d: nothing was evicted: %+v", budget, s)
		}
		m.Drop()
		if s := m.Stats(); s.Bytes != 0 || s.Namespaces != 0 {
			t.Errorf("budget %d: %d bytes in %d namespaces after dropping all", budget, s.Bytes, s.Namespaces)
		}
	}
}

// TestBlocks_fairness floods the memos from one namespace. Another one that is small
// and in use keeps its conversation.
func TestBlocks_fairness(t *testing.T) {
	testdeps.Sequential(t)
	m := demoModel(t, func(c *chat.Config) { c.BudgetBytes = 1 << 20 })
	small := parity.Conversations(2, 1)[0]
	body := small.Body("m", len(small.Messages))
	var p tokenizer.Prompt
	quiet := &tokenizer.Query{Salt: "quiet", Sizes: []int{16}}
	ask(t, m, llmapi.OpChat, body, quiet, &p)
	for i, c := range parity.Conversations(4, 330) {
		ask(t, m, llmapi.OpChat, c.Body("m", len(c.Messages)), &tokenizer.Query{Salt: "loud", Sizes: []int{16}}, &p)
		if i%10 == 0 {
			before := m.Stats()
			if err := m.Blocks(scan(t, llmapi.OpChat, body), quiet, &p); err != nil {
				t.Fatal(err)
			}
			if s := m.Stats(); s.PiecesNew != before.PiecesNew {
				t.Fatalf("the small namespace was evicted after %d conversations of the large one", i+1)
			}
		}
	}
	if m.Stats().Evictions == 0 {
		t.Error("nothing was evicted")
	}
}

// heap returns the bytes that are in use on the heap.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// TestStats_bytes compares the bytes that a Model counts with those that it holds on
// the heap.
func TestStats_bytes(t *testing.T) {
	m := demoModel(t, nil)
	all := parity.Conversations(11, 400)
	bodies := make([][]byte, len(all))
	for i := range all {
		bodies[i] = all[i].Body("m", len(all[i].Messages))
	}
	var p tokenizer.Prompt
	var r llmapi.Request
	before := heap()
	for _, b := range bodies {
		if err := r.Scan(llmapi.OpChat, b); err != nil {
			t.Fatal(err)
		}
		if err := m.Blocks(&r, &tokenizer.Query{Sizes: []int{16}}, &p); err != nil {
			t.Fatal(err)
		}
	}
	held, counted := heap()-before, m.Stats().Bytes
	t.Logf("%d bytes counted, %d held", counted, held)
	if held > counted*13/10 || held < counted/2 {
		t.Errorf("%d bytes counted, %d held", counted, held)
	}
	runtime.KeepAlive(bodies)
	runtime.KeepAlive(m)
}

// TestMemo_oneCopy limits the memory that a distinct long prompt leaves in the memo to
// its text and its block hashes, with and without escapes in the body.
func TestMemo_oneCopy(t *testing.T) {
	testdeps.Sequential(t)
	const prompts, size = 20, 200_000
	r := rand.New(rand.NewPCG(5, 6))
	for name, content := range map[string]func() string{
		"prose": func() string { return strings.ReplaceAll(prose(r, size), "\n", " ") },
		"code":  func() string { return strings.ReplaceAll(prose(r, size), ".\n", "\";\n") },
	} {
		m := demoModel(t, nil)
		bodies := make([][]byte, prompts)
		for i := range bodies {
			b, err := json.Marshal(map[string]any{"messages": []map[string]string{{"role": "user", "content": content()}}})
			if err != nil {
				t.Fatal(err)
			}
			bodies[i] = b
		}
		var p tokenizer.Prompt
		before := heap()
		for _, b := range bodies {
			if err := m.Blocks(scan(t, llmapi.OpChat, b), &tokenizer.Query{Sizes: []int{16}}, &p); err != nil || !p.Exact {
				t.Fatal(err, p.Reason)
			}
		}
		held, counted := (heap()-before)/prompts, m.Stats().Bytes/prompts
		t.Logf("%s: %d bytes a prompt held, %d counted, %d long", name, held, counted, size)
		if held > size*14/10 || counted > size*14/10 {
			t.Errorf("%s: a prompt of %d bytes holds %d, %d are counted", name, size, held, counted)
		}
		runtime.KeepAlive(m)
		runtime.KeepAlive(bodies)
	}
}

// TestBlocks_stress sends conversations from many goroutines in few namespaces
// under a small budget, with changing sizes and drops; every prompt must be
// exact.
func TestBlocks_stress(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) { c.BudgetBytes = 600_000; c.CheckEvery = 50 })
	all := parity.Conversations(21, 33)
	type job struct {
		r    *llmapi.Request
		q    *tokenizer.Query
		want tokenizer.Prompt
	}
	var jobs []job
	r := rand.New(rand.NewPCG(3, 3))
	for i := range all {
		for n := 1; n <= len(all[i].Messages); n += 2 {
			q := &tokenizer.Query{Salt: fmt.Sprint(r.IntN(2)), Sizes: [][]int{{16}, {16, 32}, {64}}[r.IntN(3)]}
			req := scan(t, llmapi.OpChat, all[i].Body("m", n))
			want, err := wantPrompt(m, "demo", req, q)
			if err == nil {
				jobs = append(jobs, job{req, q, want})
			}
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(g)))
			var p tokenizer.Prompt
			for i := range 250 {
				j := &jobs[r.IntN(len(jobs))]
				if err := m.Blocks(j.r, j.q, &p); err != nil {
					t.Error(err)
					return
				}
				if d := same(&p, &j.want); d != "" {
					t.Error(d)
					return
				}
				if i%100 == 99 && g == 0 {
					m.Drop()
				}
				m.Stats()
			}
		})
	}
	wg.Wait()
	if s := m.Stats(); s.Bytes > 600_000 || s.Bytes < 0 {
		t.Errorf("%d bytes", s.Bytes)
	}
	m.Drop()
	if s := m.Stats(); s.Bytes != 0 {
		t.Errorf("%d bytes after dropping all", s.Bytes)
	}
}

// slowEncoder delays the encoding of texts that contain a mark.
type slowEncoder struct {
	tokenizer.Encoder
	mark            []byte
	entered, resume chan struct{}
}

func (e *slowEncoder) Encode(dst []uint32, text []byte) ([]uint32, error) {
	if bytes.Contains(text, e.mark) {
		e.entered <- struct{}{}
		<-e.resume
	}
	return e.Encoder.Encode(dst, text)
}

func (e *slowEncoder) Cut(text []byte) int {
	return e.Encoder.(interface{ Cut([]byte) int }).Cut(text)
}

func (e *slowEncoder) Starts(text []byte, f func(int)) {
	e.Encoder.(interface{ Starts([]byte, func(int)) }).Starts(text, f)
}

// TestBlocks_coldDoesNotBlock completes requests of a namespace while another
// request of the same namespace is being encoded.
func TestBlocks_coldDoesNotBlock(t *testing.T) {
	e := &slowEncoder{mark: []byte("slowly"), entered: make(chan struct{}), resume: make(chan struct{})}
	m := demoModel(t, func(c *chat.Config) { e.Encoder = c.Encoder; c.Encoder = e })
	q := &tokenizer.Query{Sizes: []int{16}}
	body := func(s string) []byte {
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}]}`, s)
	}
	done := make(chan struct{})
	slow := scan(t, llmapi.OpChat, body("slowly"))
	go func() {
		defer close(done)
		var p tokenizer.Prompt
		if err := m.Blocks(slow, q, &p); err != nil || !p.Exact {
			t.Errorf("%v, %s", err, p.Reason)
		}
	}()
	<-e.entered
	var p tokenizer.Prompt
	for i := range 10 {
		if err := m.Blocks(scan(t, llmapi.OpChat, body(fmt.Sprint("quick ", i/2))), q, &p); err != nil || !p.Exact {
			t.Errorf("%v, %s", err, p.Reason)
		}
	}
	e.resume <- struct{}{}
	// the prompt is encoded in parts; release each part that holds the mark
	for {
		select {
		case <-e.entered:
			e.resume <- struct{}{}
		case <-done:
			return
		}
	}
}

// TestBlocks_private checks that a private request gets its tokens and no chains,
// finds nothing of others in a memo and stores nothing there, whatever salt it
// has.
func TestBlocks_private(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) { c.CheckEvery = 1 })
	c := parity.Conversations(8, 8)[7]
	body := c.Body("m", len(c.Messages))
	var p tokenizer.Prompt
	ask(t, m, llmapi.OpChat, body, &tokenizer.Query{Salt: "a", Sizes: []int{16}}, &p)
	want, before := p.Tokens, m.Stats()
	for _, salt := range []string{"a", "", "random"} {
		if err := m.Blocks(scan(t, llmapi.OpChat, body), &tokenizer.Query{Salt: salt, Private: true, Sizes: []int{16, 32}},
			&p); err != nil {
			t.Fatal(err)
		}
		if !p.Exact || p.Tokens != want || len(p.Chains[0])+len(p.Chains[1]) != 0 {
			t.Errorf("salt %q: got exact %v (%s), %d tokens and %d hashes, want %d tokens", salt, p.Exact, p.Reason, p.Tokens,
				len(p.Chains[0]), want)
		}
	}
	after := m.Stats()
	if after.Bytes != before.Bytes || after.Namespaces != before.Namespaces || after.PiecesFound != before.PiecesFound ||
		after.ValuesFound != before.ValuesFound || after.ValuesGuessed != before.ValuesGuessed {
		t.Errorf("the memos were used: %+v, then %+v", before, after)
	}
}
