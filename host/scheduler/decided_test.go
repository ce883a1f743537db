package scheduler

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/policy"
)

// TestProfile_Decided: it gets the scores of each scorer, nil for one that failed, without
// the lane's lock, and is not called where the built-in scored.
func TestProfile_Decided(t *testing.T) {
	one := failing{func(b *Batch) error {
		for i := range b.Scores {
			b.Scores[i] = float32(i)
		}
		return nil
	}}
	none := failing{func(*Batch) error { return errors.New("x") }}
	for _, c := range []struct {
		name    string
		scorers []Weighted
		holdout float64
		want    [][]float32
	}{
		{"one", []Weighted{{one, 1, false}}, 0, [][]float32{{0, 1, 2}}},
		{"weighted", []Weighted{{one, 2, false}}, 0, [][]float32{{0, 1, 2}}},
		{"one of two", []Weighted{{none, 1, false}, {one, 2, false}}, 0, [][]float32{nil, {0, 1, 2}}},
		{"all fail", []Weighted{{none, 1, false}}, 0, nil},
		{"control arm", []Weighted{{one, 1, false}}, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got [][]float32
			var st *State
			r := newRig(t, 3, func(_ *StateConfig, cfg *Config) {
				p := &cfg.Profiles[0]
				p.Scorers, p.Holdout = c.scorers, c.holdout
				p.Decided = func(b *Batch, parts [][]float32) {
					if mu := &st.lanes.of([]string{"main"})[0].mu; !mu.TryLock() {
						t.Error("called with the lane locked")
					} else {
						mu.Unlock()
					}
					for _, x := range parts {
						got = append(got, slices.Clone(x))
					}
					var twin Batch
					b.CopyTo(&twin)
					if b.CopyTo(&twin); !reflect.DeepEqual(*b, twin) || &b.Scores[0] == &twin.Scores[0] {
						t.Errorf("a copy is\n%+v\nof\n%+v", twin, *b)
					}
				}
			})
			st = r.state
			end(r.place(r.request("x")))
			r.sched.DryRun(r.request("y"))
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// witness is a policy that keeps its inputs.
type witness struct {
	decider
	in policy.Input
}

func (w *witness) Decide(in *policy.Input) (*policy.Decision, error) {
	w.in = *in
	return &w.d, nil
}

// TestDecision_place: policies get region and time.
func TestDecision_place(t *testing.T) {
	w := &witness{decider: decider{d: policy.Decision{Allow: true, Salt: "s"}}}
	r := newRig(t, 1, func(_ *StateConfig, c *Config) {
		c.Policy, c.Region = w, "eu"
		c.Capacity = func(model string) string { return "scarce for " + model }
	})
	r.place(r.request("x")).Done(exchange.Outcome{})
	if w.in.Region != "eu" || w.in.CapacityState != "scarce for m" || w.in.HourUTC != r.state.now().UTC().Hour() {
		t.Errorf("input %+v", w.in)
	}
}

// TestCordoned: a cordoned endpoint keeps its conversations and sessions and gets no
// others, unless no other endpoint can take them.
func TestCordoned(t *testing.T) {
	r := newRig(t, 2, nil)
	cordon := func(id endpoint.ID, on bool) {
		r.store.Update(id, func(s *endpoint.State) { s.Cordoned = on })
	}
	chosen := func(q *Request) string {
		t.Helper()
		return r.sched.DryRun(q).Chosen
	}
	long := words(1, 4000)
	r.index.Add(0, chainOf(long, "s", 16))
	cordon(0, true)
	zero, one := r.store.Load().Infos[0].URL, r.store.Load().Infos[1].URL
	if got := chosen(r.request(long)); got != zero {
		t.Errorf("a conversation it knows went to %s, want %s", got, zero)
	}
	for i := range 5 {
		q := r.request(words(10+i, 500))
		if got := chosen(q); got != one {
			t.Errorf("a conversation it does not know went to %s, want %s", got, one)
		}
	}
	cordon(1, true)
	if got := chosen(r.request(words(30, 500))); got == "" {
		t.Error("all are cordoned, and none takes it")
	}
}
