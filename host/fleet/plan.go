package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Secrets are what a plan needs beside the configuration.
type Secrets struct {
	// Authorization is the header that the engines of a pool get, "Bearer …", by
	// pool. A pool without an entry sends none.
	Authorization map[string]string
	// CacheIdentity is the digest of the tokenizer that seeds the block hashes of
	// a pool, by pool; "" = the pool has no index.
	CacheIdentity map[string]string
	// TLS is the result of EngineTLS, by pool. Https engines of a pool without an
	// entry are verified by the system's authorities.
	TLS map[string]TLS
}

// Plan is a checked set of pools with the endpoints that the configuration lists.
// It is immutable and may be applied any number of times.
type Plan struct {
	edition uint64
	pools   map[string]*poolPlan
	listed  []target
}

// Edition returns the number of the plan: that of the plan it was made after, and one
// more.
func (p *Plan) Edition() uint64 { return p.edition }

// poolPlan is what the endpoints of one pool have in common.
type poolPlan struct {
	cfg    *config.Pool
	attrs  attributes
	labels map[string]string
	client *http.Client // of the watchers
}

// target is an endpoint as it is to be.
type target struct {
	key   key
	attrs attributes
}

// NewPlan checks the pools of cfg. Its error names every fault: URLs that are not
// base URLs, pools that list an address twice, unknown dialects, and more
// endpoints than a router serves. It changes nothing. before is the plan that the plan is
// to replace, nil if there is none.
func NewPlan(cfg *config.Config, s Secrets, before *Plan) (*Plan, error) {
	p := &Plan{edition: 1, pools: map[string]*poolPlan{}}
	if before != nil {
		p.edition = before.edition + 1
	}
	tenants := !cfg.Identity.Only()
	var faults []error
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		pool := &poolPlan{cfg: c, labels: c.Labels, attrs: poolAttributes(c, s, tenants),
			client: backend.NewClient(s.TLS[c.Name].Config)}
		p.pools[c.Name] = pool
		if _, ok := dialect.ByName(c.Dialect); !ok {
			faults = append(faults, fmt.Errorf("fleet: pool %q: unknown dialect %q", c.Name, c.Dialect))
		}
		listed, err := pool.listed()
		if err != nil {
			faults = append(faults, err)
		}
		p.listed = append(p.listed, listed...)
	}
	if n := len(p.listed); n > config.MaxEndpoints {
		faults = append(faults, fmt.Errorf("fleet: %d endpoints, at most %d", n, config.MaxEndpoints))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return p, nil
}

// listed returns the endpoints that the configuration lists for the pool.
func (p *poolPlan) listed() ([]target, error) {
	var out []target
	var faults []error
	seen := map[key]bool{}
	for _, s := range p.cfg.Endpoints {
		u, err := endpoint.ParseURL(s)
		if err != nil {
			faults = append(faults, fmt.Errorf("fleet: pool %q: %w", p.cfg.Name, err))
			continue
		}
		t := p.target(u)
		if seen[t.key.address()] {
			faults = append(faults, fmt.Errorf("fleet: pool %q: duplicate endpoint %s", p.cfg.Name, u))
		}
		seen[t.key.address()] = true
		out = append(out, t)
	}
	return out, errors.Join(faults...)
}

// target returns the endpoint of the pool at u, with the event addresses that the
// configuration has for it.
func (p *poolPlan) target(u *url.URL) target {
	t := target{key: key{url: u.String(), pool: p.cfg.Name}, attrs: p.attrs}
	for _, s := range p.cfg.Events.Sources {
		if strings.TrimRight(s.Endpoint, "/") == t.key.url {
			e := &t.attrs.watch.events
			e.Publisher, e.Replay, e.Listen = s.Events, s.Replay, s.Listen
		}
	}
	return t
}
