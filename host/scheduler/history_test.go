package scheduler

import (
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/isolation"
	"github.com/kvasir-router/kvasir/host/policy"
)

// lastSeen is an Observer that keeps what the last placement says of the cache.
type lastSeen struct {
	unexplained int
	earlier     bool
}

func (l *lastSeen) Observe(o *Observation) { l.unexplained, l.earlier = o.Unexplained, o.EarlierBlocks }

// TestPlacement_unexplained: cached tokens are explained by what the request's own
// namespace sent, and by nothing else.
func TestPlacement_unexplained(t *testing.T) {
	o := new(lastSeen)
	r := newRig(t, 1, func(sc *StateConfig, _ *Config) {
		sc.Observer, sc.Locality.History = o, isolation.New(1<<20)
	})
	prompt := strings.Repeat("abcd", 160) // ten blocks
	ask := func(salt string, cached int) int {
		t.Helper()
		r.policy.d.Salt = salt
		p := r.place(r.request(prompt))
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete, HasUsage: true, HasCached: true,
			PromptTokens: 160, CachedTokens: cached, OutputTokens: 1})
		return o.unexplained
	}
	for _, c := range []struct {
		name, salt   string
		cached, want int
	}{
		{"a new prompt", "a", 0, 0},
		{"its own again", "a", 144, 0},
		{"another namespace's", "b", 144, 144},
		{"its own by now", "b", 144, 0},
		{"less than a block", "c", 15, 0},
	} {
		if got := ask(c.salt, c.cached); got != c.want {
			t.Errorf("%s: %d unexplained, want %d", c.name, got, c.want)
		}
	}
	r.policy.d.Scope = policy.ScopePublic
	if got := ask("", 144); got != 0 {
		t.Errorf("public namespace: %d unexplained", got)
	}
	r.policy.d.Scope = policy.ScopeNone
	for range 2 {
		if got := ask("d", 144); got != 144 {
			t.Errorf("a namespace of one request: %d unexplained, want 144", got)
		}
	}
}

// TestPlacement_dedicated: an endpoint of one tenant makes no claims.
func TestPlacement_dedicated(t *testing.T) {
	o := new(lastSeen)
	r := newRig(t, 1, func(sc *StateConfig, c *Config) {
		sc.Observer, sc.Locality.History = o, isolation.New(1<<20)
		c.Pools[0].Dedicated = true
	})
	p := r.place(r.request(strings.Repeat("abcd", 160)))
	p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete, HasCached: true, CachedTokens: 144})
	if o.unexplained != 0 {
		t.Errorf("%d unexplained", o.unexplained)
	}
}
