package scheduler

import "testing"

// TestWeights: the weights of a model's pools divide its requests, idle and busy, with the
// rules for conversations and without.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		name  string
		busy  bool
		rules ConversationRules
	}{
		{"idle", false, ConversationRules{}},
		{"busy", true, ConversationRules{}},
		{"idle, no rules", false, noRules},
		{"busy, no rules", true, noRules},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0, func(_ *StateConfig, cfg *Config) {
				cfg.Pools = []Pool{{Name: "large"}, {Name: "small"}}
				cfg.Models[0].Pools = []PoolRef{{Pool: "large", Weight: 3}, {Pool: "small"}}
				cfg.Profiles[0].Conversations = c.rules
			})
			r.add("a:1", "large", nil)
			r.add("b:1", "small", nil)
			got := [2]int{}
			for i := range 60 {
				p := r.place(r.request(words(i, 500)))
				got[p.Target().Endpoint]++
				if !c.busy {
					end(p)
				}
			}
			if got[0] < 39 || got[0] > 51 {
				t.Errorf("got %v of 60, want about 45 and 15", got)
			}
		})
	}
}
