package router

import (
	"fmt"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// modelName is the model of all requests.
const modelName = "model"

// Options configure the product's router.
type Options struct {
	// Profile is the profile that places every request; its name is not used.
	Profile scheduler.Profile
	// Policy decides about each request; nil = every request is allowed, each tenant with
	// a namespace of its own.
	Policy policy.Engine
	Seed   uint64 // of ties and of the control arm
}

// Product is the product's scheduler as a router in virtual time: its state, its
// index, its rules, and the profile's plugins.
type Product struct {
	*knowledge
	state    *scheduler.State
	rules    *scheduler.Scheduler
	prompter *chainPrompter
	tenants  map[string]*identity.Principal
	api      llmapi.Request
	request  scheduler.Request
}

// New returns the product's router for a fleet.
func New(engines []virtual.Engine, o Options) (*Product, error) {
	k, err := newKnowledge(engines)
	if err != nil {
		return nil, err
	}
	p := &Product{knowledge: k, prompter: &chainPrompter{}, tenants: map[string]*identity.Principal{}}
	p.state = scheduler.NewState(scheduler.StateConfig{
		Store: k.store, Seed: o.Seed + 1, Now: k.clock, TraceEntries: 16, TraceBytes: 1 << 20,
		Locality: scheduler.Locality{Index: k.index, Predictor: k.predictor, Holders: k.index.Holders()},
	})
	if o.Policy == nil {
		o.Policy = allow{}
	}
	o.Profile.Name = "default"
	p.rules, err = scheduler.New(scheduler.Config{
		State: p.state, Policy: o.Policy, Profiles: []scheduler.Profile{o.Profile}, Pools: []scheduler.Pool{{Name: poolName}},
		Models: []scheduler.Model{{Name: modelName, Pools: []scheduler.PoolRef{{Pool: poolName}}, Prompter: p.prompter}},
	})
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	p.api = llmapi.Request{Op: llmapi.OpChat, Model: modelName, Stream: true, N: 1}
	return p, nil
}

// Place implements virtual.Router.
func (p *Product) Place(now time.Duration, r *virtual.Request) (int, error) {
	p.now = now
	who := p.tenants[r.Tenant]
	if who == nil {
		who = &identity.Principal{Tenant: r.Tenant}
		p.tenants[r.Tenant] = who
	}
	p.prompter.r = r
	p.prompter.block = p.engines[0].BlockTokens
	p.request = scheduler.Request{API: &p.api, Principal: who, ID: strconv.FormatUint(r.Number, 10), Received: p.clock()}
	placed, err := p.rules.Schedule(&p.request)
	if err != nil {
		return 0, err
	}
	r.Predicted, r.Route = placed.PredictedCached(), placed
	return int(placed.Target().Endpoint), nil
}

// FirstToken implements virtual.Router.
func (p *Product) FirstToken(now time.Duration, r *virtual.Request) {
	p.now = now
	r.Route.(*scheduler.Placement).FirstToken()
}

// Done implements virtual.Router.
func (p *Product) Done(now time.Duration, r *virtual.Request) {
	p.now = now
	r.Route.(*scheduler.Placement).Done(exchange.Outcome{
		Status: 200, End: exchange.EndComplete, TTFT: r.First - r.Arrival, E2E: now - r.Arrival,
		PromptTokens: r.Prompt, OutputTokens: r.Output, CachedTokens: r.Cached, HasUsage: true, HasCached: true,
	})
	r.Route = nil
}

// Tick implements virtual.Router.
func (p *Product) Tick(now time.Duration) {
	if p.tick(now) {
		p.state.Refresh()
	}
}

// Stats returns the scheduler's counts.
func (p *Product) Stats() scheduler.Stats { return p.state.Stats() }

// chainPrompter gives the scheduler the chain of the request being placed.
type chainPrompter struct {
	r     *virtual.Request
	block int
}

// Blocks implements scheduler.Prompter.
func (c *chainPrompter) Blocks(_ *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error {
	p.Reset()
	p.Exact, p.Tokens = true, c.r.Prompt
	for i, size := range q.Sizes {
		if size == c.block {
			p.Chains[i] = append(p.Chains[i], c.r.Blocks...)
		}
	}
	return nil
}

// allow is a policy that allows everything, with a namespace for each tenant. Traces
// name the blocks of different tenants differently, so that one salt suffices.
type allow struct{}

var allowed = policy.Decision{Allow: true, Scope: policy.ScopeTenant, Salt: "replay", Namespace: "replay"}

// Decide implements policy.Engine.
func (allow) Decide(*policy.Input) (*policy.Decision, error) { return &allowed, nil }
