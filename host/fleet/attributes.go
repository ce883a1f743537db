package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
)

// key identifies an endpoint across changes of the configuration.
type key struct{ url, pool string }

// address returns the key without the scheme of its URL. No two endpoints have the
// same.
func (k key) address() key {
	_, addr, _ := strings.Cut(k.url, "://")
	return key{addr, k.pool}
}

// attributes are what an endpoint has besides its key. They are compared with ==
// to find what changed, and each part is changed in place where it is used.
type attributes struct {
	info  info
	watch watch
}

// info is the part that the store keeps.
type info struct {
	dialect string
	labels  string // of the pool, as %q prints them; maps cannot be compared
	price   float32
	spot    bool
}

// watch is the part that the endpoint's watcher is made from.
type watch struct {
	dialect, bearer, cacheIdentity string
	parser                         config.Parser
	blockTokens, assumedBlocks     int
	events                         backend.Events
	probe                          time.Duration // between isolation probes, 0 = none
	unexplainedLogOnly             bool          // answers do not revoke isolation
	tls                            string        // digest of the TLS configuration
}

// assumedTokens is the cache of an endpoint that does not report its size: 1 Mi
// tokens is an 8B model's on one 80 GB GPU, twice over; a larger guess keeps
// predicting what is long evicted.
const assumedTokens = 1 << 20

// assumedBlockTokens is the block size until the engine reports one: vLLM's.
const assumedBlockTokens = 16

// poolAttributes returns what the endpoints of a pool have in common. tenants
// reports whether there can be several tenants.
func poolAttributes(p *config.Pool, s Secrets, tenants bool) attributes {
	a := attributes{
		info: info{dialect: p.Dialect, labels: fmt.Sprintf("%q", p.Labels), price: float32(p.Price), spot: p.Spot},
		watch: watch{
			dialect: p.Dialect, parser: p.Parser, bearer: strings.TrimPrefix(s.Authorization[p.Name], "Bearer "),
			cacheIdentity: s.CacheIdentity[p.Name], tls: s.TLS[p.Name].digest, blockTokens: int(p.BlockTokens),
			events: backend.Events{Mode: p.Events.Mode, Port: p.Events.Port, ReplayPort: int(p.Events.ReplayPort),
				Topic: p.Events.Topic},
		},
	}
	if m := p.Isolation.Mode; m == "on" || m == "auto" && tenants && p.Tenant == "" {
		a.watch.probe = time.Duration(p.Isolation.Every)
	}
	a.watch.unexplainedLogOnly = p.Isolation.Unexplained == "log"
	block, tokens := int(p.BlockTokens), p.Capacity.CacheTokens
	if block == 0 {
		block = assumedBlockTokens
	}
	if tokens == 0 {
		tokens = assumedTokens
	}
	a.watch.assumedBlocks = tokens / block
	return a
}
