package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// TestCache_bounds: no tenant has more entries than the bound of a tenant, the cache
// has no more than its bound, and entries of the tenant with the most are evicted.
func TestCache_bounds(t *testing.T) {
	var n Counters
	c := newCache(100, 40)
	fill := func(tenant string, i int) {
		if _, err := c.fill(fmt.Appendf(nil, "%s/%d", tenant, i), tenant, &n,
			func() (*cacheEntry, error) { return &cacheEntry{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		fill("loud", i)
	}
	if got := c.size(); got != 40 {
		t.Errorf("one tenant: %d entries, want 40", got)
	}
	for i := range 20 {
		fill("quiet", i)
	}
	for k := range 10 {
		for i := range 40 {
			fill(fmt.Sprint("t", k), i)
		}
	}
	if got := c.size(); got != 100 {
		t.Errorf("all: %d entries, want 100", got)
	}
	entries := 0
	for i := range c.shards {
		entries += len(c.shards[i].m)
		if len(c.shards[i].flights) != 0 {
			t.Error("an evaluation has not ended")
		}
	}
	quiet := 0
	for _, o := range c.owners {
		if len(o.queue) == 0 {
			t.Errorf("tenant %s without entries was not deleted", o.name)
		}
		quiet += len(o.queue)
	}
	if entries != 100 || quiet != 100 || n.Stats().Evicted != 1000+20+400-100 {
		t.Errorf("%d in shards, %d in queues, %d evicted", entries, quiet, n.Stats().Evicted)
	}
}

// TestCache_used: an entry that is used outlives entries that are not.
func TestCache_used(t *testing.T) {
	var n Counters
	c := newCache(1000, 8)
	for i := range 200 {
		if i > 0 && c.get([]byte("0"), &n) == nil {
			t.Fatalf("entry 0 was evicted after %d others", i)
		}
		c.fill(fmt.Append(nil, i), "t", &n, func() (*cacheEntry, error) { return &cacheEntry{}, nil })
	}
}

// TestCache_flight: of concurrent callers with one key, one evaluates and all receive
// its result; an error is not cached.
func TestCache_flight(t *testing.T) {
	var n Counters
	c := newCache(100, 100)
	var runs atomic.Int64
	begun, release := make(chan bool), make(chan bool)
	fail := errors.New("boom")
	results := make(chan error, 8)
	for i := range 8 {
		go func() {
			if i > 0 {
				<-begun
			}
			_, err := c.fill([]byte("k"), "t", &n, func() (*cacheEntry, error) {
				if runs.Add(1) == 1 {
					close(begun)
					<-release
				}
				return nil, fail
			})
			results <- err
		}()
	}
	<-begun
	close(release)
	for range 8 {
		if err := <-results; !errors.Is(err, fail) {
			t.Errorf("got %v", err)
		}
	}
	if c.size() != 0 {
		t.Error("an error was cached")
	}
	e, err := c.fill([]byte("k"), "t", &n, func() (*cacheEntry, error) { return &cacheEntry{}, nil })
	if err != nil || c.get([]byte("k"), &n) != e {
		t.Errorf("got %v %v", e, err)
	}
}

// TestSnapshot_stress decides in many goroutines with a cache that is too small:
// every decision belongs to its input, and has the namespace of its input.
func TestSnapshot_stress(t *testing.T) {
	s := mustLoad(t, with(), Config{MaxEntries: 12, MaxPerTenant: 5})
	want := map[string]string{} // by tenant, user, model
	tenants, models := []string{"acme", "globex", "initech", "secret", "off", "unlisted"}, []string{"m", "n", "o"}
	name := func(tenant, user, model string) string { return tenant + " " + user + " " + model }
	input := func(tenant, user, model string) *Input {
		return &Input{Principal: &identity.Principal{Tenant: tenant, User: user}, Model: model}
	}
	render := func(d *Decision) string { return string(mustJSON(d.View())) + d.Salt }
	for _, tn := range tenants {
		for u := range 12 {
			for _, m := range models {
				d, err := s.Uncached(input(tn, fmt.Sprint("u", u), m))
				if err != nil {
					t.Fatal(err)
				}
				want[name(tn, fmt.Sprint("u", u), m)] = render(d)
			}
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1500 {
				tn, u, m := tenants[(i+g)%len(tenants)], fmt.Sprint("u", (i*7+g)%12), models[i%3]
				d, err := s.Decide(input(tn, u, m))
				if err != nil || render(d) != want[name(tn, u, m)] {
					t.Errorf("%s %s %s: got %+v %v", tn, u, m, d, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if st := s.cfg.Counters.Stats(); st.Hits == 0 || st.Evicted == 0 || s.Cached() > 12 {
		t.Errorf("got %+v, %d entries", st, s.Cached())
	}
}

// TestSnapshot_allocs: a cached decision allocates nothing, also for a user with a
// separate namespace.
func TestSnapshot_allocs(t *testing.T) {
	s := mustLoad(t, with(), Config{})
	for _, tenant := range []string{"acme", "globex", "unlisted"} {
		in := ask(tenant, "m")
		in.Principal.User = "u"
		if got := testing.AllocsPerRun(1000, func() { s.Decide(in) }); got != 0 {
			t.Errorf("%s: %v allocations, want 0", tenant, got)
		}
	}
}

// TestSnapshot_budget: an evaluation that exceeds the budget ends with an error that
// is not cached, and does not delay other evaluations.
func TestSnapshot_budget(t *testing.T) {
	const enabled = "	tenant.enabled\n	tenant.models[input.request.model]\n}"
	rules := strings.Replace(base["kvasir/decision.rego"], enabled, `	slow
	tenant.models[input.request.model]
}

slow if input.request.model != "forever"

slow if {
	some i in numbers.range(1, 30000)
	some j in numbers.range(1, 30000)
	i * j < 0
}`, 1)
	s := mustLoad(t, with("kvasir/decision.rego", rules), Config{Budget: 30 * time.Millisecond})
	done := make(chan time.Duration)
	go func() {
		begun := time.Now()
		_, err := s.Decide(ask("acme", "forever"))
		if err == nil || !strings.Contains(err.Error(), "time limit of 30ms") {
			t.Errorf("got %v", err)
		}
		done <- time.Since(begun)
	}()
	if d, err := s.Decide(ask("acme", "m")); err != nil || !d.Allow {
		t.Errorf("got %+v %v", d, err)
	}
	if took := <-done; took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if st := s.cfg.Counters.Stats(); st.Errors != 1 || s.Cached() != 1 {
		t.Errorf("got %+v, %d entries", st, s.Cached())
	}
}

// TestSnapshot_errors: a policy that contradicts itself, or whose result is not a
// decision, returns an error each time.
func TestSnapshot_errors(t *testing.T) {
	f := func(what, rule, want string) {
		t.Helper()
		s := mustLoad(t, with("kvasir/decision.rego", base["kvasir/decision.rego"]+"\n"+rule), Config{})
		for range 2 {
			if d, err := s.Decide(ask("acme", "m")); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %+v %v", what, d, err)
			}
		}
		if s.Cached() != 0 {
			t.Errorf("%s: an error is cached", what)
		}
	}
	f("conflict", `decision := {"allow": false, "reason": "other"} if tenant.enabled`, "conflict")
	f("builtin error", "decision := {\"allow\": false, \"reason\": \"x\"} if {\n\tinput.request.model != "+
		"\"\"\n\tto_number(input.request.model) > 1\n}\n", "eval_builtin_error")
}

// TestInputSet_key: inputs that differ in a value that the policy refers to have
// different keys, even if the concatenations of their values are equal.
func TestInputSet_key(t *testing.T) {
	s := inputSet{uses: make([]bool, len(inputFields))}
	for i := range s.uses {
		s.uses[i] = true
	}
	s.setKeyed()
	keys := map[string]string{}
	p := func(change func(*Input, *identity.Principal)) {
		in := &Input{Principal: &identity.Principal{Tenant: "t"}}
		change(in, in.Principal)
		b, ok := s.key(nil, in)
		if !ok {
			t.Fatal("out of bounds")
		}
		doc := string(inputJSON(in))
		if old, there := keys[string(b)]; there && old != doc {
			t.Errorf("%s and %s have the same key", old, doc)
		}
		keys[string(b)] = doc
	}
	for _, a := range []string{"", "a", "ab", "b", "abc"} {
		for _, b := range []string{"", "b", "bc", "c"} {
			p(func(_ *Input, p *identity.Principal) { p.User, p.Method = a, b })
			p(func(in *Input, _ *identity.Principal) { in.Model, in.Adapter = a, b })
			p(func(_ *Input, p *identity.Principal) { p.Groups = []string{a, b} })
			p(func(_ *Input, p *identity.Principal) { p.Groups, p.Scopes = []string{a}, []string{b} })
			p(func(in *Input, _ *identity.Principal) { in.Labels = []Label{{Name: a, Value: b}} })
		}
	}
	p(func(in *Input, _ *identity.Principal) { in.HourUTC = 3 })
	p(func(in *Input, _ *identity.Principal) { in.Stream = true })
	if len(keys) < 80 {
		t.Errorf("%d keys", len(keys))
	}
}
