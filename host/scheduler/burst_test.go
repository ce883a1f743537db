package scheduler

import (
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// warm makes the index hold a prompt's blocks on the given endpoints.
func (r *rig) warm(text string, at ...int) {
	chain := chainOf(text, "s", 16)
	for _, holder := range at {
		r.index.Touch(holder, chain)
	}
}

// placed returns the requests in flight by endpoint.
func (r *rig) placed() []int {
	var out []int
	for _, l := range r.store.Load().Loads {
		out = append(out, int(l.Inflight()))
	}
	return out
}

// TestBurst_decoding: forty-eight clients share a system prompt of 10,000 tokens that
// one endpoint of four holds. Their prefills are over at once, their answers are long:
// an endpoint with more requests decodes each of them more slowly.
func TestBurst_decoding(t *testing.T) {
	r := newRig(t, 4, nil)
	system := words(1, 10_000)
	r.warm(system, 0)
	for i := range 48 {
		p := r.place(r.request(system + words(100+i, 80)))
		p.FirstToken()
	}
	got := r.placed()
	if most, least := slices.Max(got), slices.Min(got); most > 16 || least < 8 {
		t.Errorf("got %v requests on four endpoints, want 8 to 16 on each", got)
	}
}

// TestBurst_equal: a burst of requests is spread evenly over endpoints that hold their
// prompt, whatever was placed before.
func TestBurst_equal(t *testing.T) {
	prompt := words(1, 2000)
	same := func(int) string { return prompt + words(7, 40) }
	beginning := func(i int) string { return prompt + words(100+i, 40) }
	for _, c := range []struct {
		name    string
		history []int // requests placed before and over, by endpoint
	}{
		{"fresh", nil},
		{"started on one", []int{16, 0, 0, 0}},
		{"one was away", []int{0, 16, 16, 16}},
		{"long uneven history", []int{400, 100, 100, 100}},
	} {
		for name, request := range map[string]func(int) string{"same": same, "beginning": beginning} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				r := newRig(t, 4, nil)
				for only, n := range c.history {
					r.ready(only)
					for i := range n {
						end(r.place(r.request(request(1000*only + i))))
					}
				}
				r.ready(-1)
				r.warm(prompt, 0, 1, 2, 3)
				for i := range 64 {
					r.place(r.request(request(1<<20 + i)))
				}
				got := r.placed()
				if most, least := slices.Max(got), slices.Min(got); most > 17 || least < 15 {
					t.Errorf("got %v, want 16 on each within 10 %%", got)
				}
			})
		}
	}
}

// TestHoldout_even: the control arm spreads requests whose prefix one endpoint holds.
func TestHoldout_even(t *testing.T) {
	r := newRig(t, 4, func(_ *StateConfig, c *Config) { c.Profiles[0].Holdout = 1 })
	system := words(1, 10_000)
	r.warm(system, 0)
	for i := range 96 {
		p := r.place(r.request(system + words(100+i, 80)))
		p.FirstToken()
	}
	got := r.placed()
	if most, least := slices.Max(got), slices.Min(got); most > 27 || least < 21 {
		t.Errorf("got %v, want 24 on each within 10 %%", got)
	}
}

// ready makes only one endpoint ready, all for -1.
func (r *rig) ready(only int) {
	for i := range r.store.Load().N {
		r.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Ready = only < 0 || i == only })
	}
}
