package rules

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// poolRules turns a pool of the configuration into one of the scheduler. The secrets
// of r have been read.
func (r *Revision) poolRules(p *config.Pool) scheduler.Pool {
	return scheduler.Pool{
		Name: p.Name, Authorization: r.authorization[p.Name], TLS: r.engineTLS[p.Name].Config,
		UnknownFields: p.Fields.Unknown, InternalFields: p.Fields.Internal, MaxInflight: p.Capacity.MaxInflight,
		Timeouts: p.Timeouts, Priority: p.Priority == "on", NoSalt: dialect.Of(p.Dialect).Salt.Field == "",
		Tenant: p.Tenant, Dedicated: r.Config.Identity.Only() || p.Tenant != "",
	}
}

// bearer reads a pool's token and returns the Authorization header's value, ""
// without a file.
func bearer(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("credentials: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" || strings.ContainsAny(t, "\r\n") {
		return "", fmt.Errorf("credentials in %s: want one line with the token", file)
	}
	return "Bearer " + t, nil
}

// modelRules turns a model of the configuration into one of the scheduler.
func (m *Manager) modelRules(c *config.Model, r *Revision, in planInput) (scheduler.Model, error) {
	out := scheduler.Model{Name: c.Name, Aliases: c.Aliases, Created: m.opt.Started.Unix()}
	for _, p := range c.Pools {
		out.Pools = append(out.Pools, scheduler.PoolRef{Pool: p.Name, ServedAs: p.ServedAs, Weight: p.Weight})
	}
	if c.Tokenizer.Dir == "" || c.Locality == "off" {
		return out, nil
	}
	p, err := m.loadPrompts(&c.Tokenizer, r, in)
	if err != nil {
		return out, fmt.Errorf("model %s: %w", c.Name, err)
	}
	out.Prompter, out.MeasureReuse = p.chat, c.Locality == "auto"
	return out, nil
}

// Profile turns a profile of the configuration into one of the scheduler, without its
// plugins. The
// first profile is the default, whatever its name.
func Profile(p *config.Profile, first bool) scheduler.Profile {
	name := p.Name
	if first {
		name = "default"
	}
	var match []scheduler.ProfileMatch
	for _, m := range p.Match {
		match = append(match, scheduler.ProfileMatch(m))
	}
	return scheduler.Profile{
		Name: name, Match: match, Objective: scheduler.Objective(p.Objective), Holdout: *p.Holdout,
		Distrust: p.Trust == "off", Normalize: scheduler.Normalize(p.Normalize),
		Queue: scheduler.Queue{Deadline: time.Duration(*p.Queue.Deadline), MaxDelay: time.Duration(*p.Queue.MaxDelay),
			Limit: p.Queue.MaxWaiting},
		Envelope: scheduler.Envelope{
			MaxLoadRatio: float32(p.Envelope.MaxLoadRatio), SlackTokens: orOff(p.Envelope.SlackTokens),
			MaxShare: float32(p.Envelope.MaxShare),
		},
		SessionTTL: time.Duration(p.Sticky.TTL),
		Conversations: scheduler.ConversationRules{HoldTokens: orOff(p.Conversations.HoldTokens),
			SpreadTokens: orOff(p.Conversations.SpreadTokens), JoinAfter: int(orOff(p.Conversations.JoinAfter))},
	}
}

// orOff returns a bound as package scheduler has it: 0 = the default, negative = off.
func orOff(v *int) float32 {
	switch {
	case v == nil:
		return 0
	case *v == 0:
		return -1
	}
	return float32(*v)
}
