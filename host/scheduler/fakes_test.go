package scheduler

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// wordPrompter counts every four bytes of a body as one token.
type wordPrompter struct{ inexact bool }

func (w wordPrompter) Blocks(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error {
	p.Reset()
	if w.inexact {
		p.Reason = "not rendered"
		return nil
	}
	p.Exact, p.Tokens = true, len(r.Body)/4
	seed := blockhash.Seed("words", q.Adapter, q.Salt)
	var buf [256]uint32
	for i, size := range q.Sizes {
		prev := seed
		n := 0
		for at := 0; at+4 <= len(r.Body); at += 4 {
			buf[n] = binary.LittleEndian.Uint32(r.Body[at:])
			if n++; n == size {
				p.Chains[i], _ = blockhash.Append(p.Chains[i], prev, buf[:n], size)
				prev, n = p.Chains[i][len(p.Chains[i])-1], 0
			}
		}
	}
	return nil
}

// fakeIndex is an index, a predictor and an assumed cache at once: sets of
// hashes by holder.
type fakeIndex struct {
	mu    sync.Mutex
	held  map[int]map[uint64]time.Time // when it goes; zero = never
	ttl   time.Duration                // of Add; 0 = never
	clock func() time.Time
	adds  int
}

func newFakeIndex() *fakeIndex {
	return &fakeIndex{held: map[int]map[uint64]time.Time{}, clock: time.Now}
}

func (f *fakeIndex) Add(holder int, hashes []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.adds++
	m := f.held[holder]
	if m == nil {
		m = map[uint64]time.Time{}
		f.held[holder] = m
	}
	var end time.Time
	if f.ttl > 0 {
		end = f.clock().Add(f.ttl)
	}
	for _, h := range hashes {
		m[h] = end
	}
}

func (f *fakeIndex) Touch(holder int, hashes []uint64) { f.Add(holder, hashes) }

func (f *fakeIndex) Match(hashes, candidates []uint64, depth []uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	for h := range depth {
		if candidates[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		m, n := f.held[h], 0
		for n < len(hashes) {
			end, ok := m[hashes[n]]
			if !ok || !end.IsZero() && end.Before(now) {
				break
			}
			n++
		}
		depth[h] = uint32(n)
	}
}

func (f *fakeIndex) Raise(hashes, candidates []uint64, depth, scratch []uint32) {
	f.Match(hashes, candidates, scratch)
	for i := range depth {
		depth[i] = max(depth[i], scratch[i])
	}
}

// decider is a policy engine with one decision.
type decider struct {
	d   policy.Decision
	err error
}

func (d *decider) Decide(*policy.Input) (*policy.Decision, error) { return &d.d, d.err }

// rig is a scheduler over n ready endpoints of one pool.
type rig struct {
	t      testing.TB
	store  *endpoint.Store
	state  *State
	sched  *Scheduler
	policy *decider
	index  *fakeIndex
	cfg    Config
	tenant *identity.Principal
	ids    int
}

func newRig(t testing.TB, n int, mod func(*StateConfig, *Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: endpoint.NewStore(), policy: &decider{}, index: newFakeIndex(),
		tenant: &identity.Principal{Tenant: "acme"}}
	r.policy.d = policy.Decision{Allow: true, Salt: "s", Namespace: "ns", Rules: []string{"allow"}, Revision: "r1"}
	for i := range n {
		r.add(fmt.Sprintf("10.0.0.%d:8000", i), "main", nil)
	}
	sc := StateConfig{Store: r.store, Seed: 7, Locality: Locality{Index: r.index, Predictor: r.index, Holders: 1024}}
	r.cfg = Config{Policy: r.policy, Revision: 3,
		Models: []Model{{Name: "m", Aliases: []string{"gpt"}, Pools: []PoolRef{{Pool: "main", ServedAs: "org/m"}},
			Prompter: wordPrompter{}}},
		Pools:    []Pool{{Name: "main", Authorization: "Bearer x"}},
		Profiles: []Profile{{Name: "default"}}}
	if mod != nil {
		mod(&sc, &r.cfg)
	}
	r.state = NewState(sc)
	r.cfg.State = r.state
	s, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.sched = s
	return r
}

// add adds a ready endpoint that serves everything.
func (r *rig) add(addr, pool string, labels map[string]string) endpoint.ID {
	r.t.Helper()
	id, err := r.store.Add(endpoint.Info{URL: "http://" + addr, Addr: addr, Pool: pool, Dialect: "vllm", Labels: labels})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store.Update(id, func(s *endpoint.State) {
		s.Ready, s.Trust, s.BlockTokens, s.Events, s.MaxModelLen = true, 1, 16, endpoint.EventsLive, 1<<20
	})
	return id
}

// request returns a request whose prompt is body.
func (r *rig) request(body string) *Request {
	r.ids++
	return &Request{ID: fmt.Sprint("req-", r.ids), Principal: r.tenant,
		API: &llmapi.Request{Op: llmapi.OpChat, Model: "m", Body: []byte(body)}}
}

// place schedules and fails the test on a refusal.
func (r *rig) place(req *Request) *Placement {
	r.t.Helper()
	p, err := r.sched.Schedule(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// idle fails the test unless every charge has been given back.
func (r *rig) idle() {
	r.t.Helper()
	for i, l := range r.store.Load().Loads {
		if l != nil && (l.Inflight() != 0 || l.Outstanding() != 0 || l.KVActive() != 0 || l.TenantOutstanding("acme") != 0) {
			r.t.Errorf("endpoint %d: inflight %d, outstanding %d, kv %d left", i, l.Inflight(), l.Outstanding(), l.KVActive())
		}
	}
	if n := len(r.state.waiting.all()); n > 0 {
		r.t.Errorf("%d placements are left waiting", n)
	}
}

var ok200 = exchange.Outcome{Status: 200, End: exchange.EndComplete}

// end ends a placement successfully.
func end(p *Placement) {
	p.FirstToken()
	p.Done(ok200)
}

// words returns n tokens of text that depend on seed.
func words(seed, n int) string {
	b := make([]byte, 0, 4*n)
	z := uint64(seed)
	for range n {
		z = mix(z)
		b = binary.LittleEndian.AppendUint32(b, uint32(z))
	}
	return string(b)
}

// chainOf returns the chain that wordPrompter computes for text.
func chainOf(text, salt string, size int) []uint64 {
	var p tokenizer.Prompt
	q := tokenizer.Query{Salt: salt, Sizes: []int{size}}
	wordPrompter{}.Blocks(&llmapi.Request{Body: []byte(text)}, &q, &p)
	return p.Chains[0]
}
