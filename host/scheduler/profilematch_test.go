package scheduler

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// TestProfileMatch: policy's profile is used first, then the first profile with a match
// that holds, then the default; explain has the reason.
func TestProfileMatch(t *testing.T) {
	r := newRig(t, 1, func(_ *StateConfig, c *Config) {
		c.Models = append(c.Models, Model{Name: "small", Pools: []PoolRef{{Pool: "main"}}, Prompter: wordPrompter{}})
		c.Profiles = append(c.Profiles,
			Profile{Name: "gold", Match: []ProfileMatch{{
				Labels: map[string][]string{"tier": {"gold", "silver"}}, Models: []string{"m"}}}},
			Profile{Name: "batch", Match: []ProfileMatch{{Operations: []string{"completions"}}, {Models: []string{"small"}}}},
			Profile{Name: "named"})
	})
	labels := func(v string) []identity.Label {
		return []identity.Label{{Name: "a", Value: "x"}, {Name: "tier", Value: v}}
	}
	for _, c := range []struct {
		what, model, tier, policy string
		op                        llmapi.Operation
		want, why                 string
	}{
		{"nothing", "m", "", "", llmapi.OpChat, "default", profileByDefault},
		{"label", "m", "silver", "", llmapi.OpChat, "gold", "its match[0] holds"},
		{"another value", "m", "lead", "", llmapi.OpChat, "default", profileByDefault},
		{"alias", "gpt", "gold", "", llmapi.OpChat, "gold", "its match[0] holds"},
		{"label of another model", "small", "gold", "", llmapi.OpChat, "batch", "its match[1] holds"},
		{"operation", "m", "", "", llmapi.OpCompletions, "batch", "its match[0] holds"},
		{"the first of two", "m", "gold", "", llmapi.OpCompletions, "gold", "its match[0] holds"},
		{"policy", "m", "gold", "named", llmapi.OpCompletions, "named", profileByPolicy},
	} {
		r.policy.d.Profile = c.policy
		req := r.request(words(1, 100))
		req.API.Model, req.API.Op = c.model, c.op
		if c.tier != "" {
			req.Labels = labels(c.tier)
		}
		end(r.place(req))
		x, ok := r.state.Explain("acme", req.ID)
		if !ok || x.Profile != c.want || x.ProfileReason != c.why {
			t.Errorf("%s: got %q, %q, want %q, %q", c.what, x.Profile, x.ProfileReason, c.want, c.why)
		}
	}
}
