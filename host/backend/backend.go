// Package backend watches engines: their health, capabilities, load, and the
// contents of their caches.
//
// A [Watcher] looks after one endpoint. It scrapes the engine's health and
// metrics, discovers its models, capabilities and event sockets, follows its
// cache events ([kvevents.Subscriber]), turns them into the router's own block
// hashes and stores these in the index, and measures how far what the index has
// can be trusted. All of it lands in the endpoint's State. A [Fleet] runs the
// watchers of all endpoints.
//
// What differs between engines is in host/dialect.
package backend

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

// Index receives the contents of an engine's cache; [kvindex.Index] is one.
// Holders are numbered by [kvindex.HolderOf]. Calls for one holder come from one
// goroutine at a time; calls for different holders may be concurrent.
type Index interface {
	// Store adds blocks that follow the one the engine calls parent, or start a
	// chain. engine and own are [blocks], and the index does not keep them.
	Store(holder int, parent uint64, hasParent bool, engine, own []uint64) error
	Remove(holder int, engine []uint64)
	// Own returns the router's name of the block that the engine of holder calls
	// engine, if any tier of the endpoint holds it.
	Own(holder int, engine uint64) (own uint64, ok bool)
	RemoveHolder(holder int)
}

// Holding is an Index that also knows whether one holder holds a block. With it,
// copies of a block are counted for engines with several tiers too.
type Holding interface {
	Holds(holder int, engine uint64) bool
}

// Counting is an Index that also knows how many blocks a holder holds.
type Counting interface {
	Held(holder int) int64
}

// Assumed is the model of endpoints whose cache is only predicted. Clear is
// called when the engine is known to have lost its cache.
//
// SetCapacity is called with the blocks that an engine reports.
type Assumed interface {
	Clear(holder int)
	SetCapacity(holder, blocks int)
	Held(holder int) int // blocks
}

// History takes the blocks that engines store; [isolation.History] is one. own is
// [blocks] hashes of the router's and not kept. Safe for concurrent use.
type History interface {
	Stored(own []uint64)
}

// Endpoints receives the state of endpoints; [endpoint.Store] is one.
type Endpoints interface {
	Update(id endpoint.ID, f func(*endpoint.State)) bool
}

// Event modes of a Config.
const (
	EventsAuto = "auto" // used if the engine has them
	EventsOn   = "on"   // the same, and if there are none the endpoint has a reason
	EventsOff  = "off"  // not used
)

// Events is where an engine's cache events are, as far as that is configured.
type Events struct {
	Mode string // EventsAuto, EventsOn, EventsOff; "" = auto
	// Publisher and Replay are addresses (tcp://host:port) that are used whatever
	// the engine reports. Listen is an address for an engine that connects to the
	// router.
	Publisher, Replay, Listen string
	// Port and ReplayPort are the base ports for an engine that does not report its
	// own; rank r is at port + r. Default the dialect's and Port + 1.
	Port, ReplayPort int
	Topic            string
}

// Config is what a Watcher is made from. Zero values mean the defaults.
type Config struct {
	ID      endpoint.ID
	URL     string // base URL of the engine, "http://host:port"
	Dialect *dialect.Dialect
	Scrape  *Scrape // nil = by the dialect's metrics
	Bearer  string  // token shown to the engine
	Rank    int     // data parallel rank of this endpoint

	// CacheIdentity seeds the block hashes: the digest of the tokenizer of the
	// model the engine serves, the same as on the request side.
	CacheIdentity string
	// BlockTokens is the block size that is expected; 0: the one that the engine
	// reports.
	BlockTokens int
	// AssumedBlocks is the size in blocks of a cache that the engine does not report;
	// 0 = the Assumed's own default.
	AssumedBlocks int
	Events        Events
	Probe         Probe // of its cache's isolation
	// Revoked is called when a request's answer took the endpoint's isolation away,
	// once for each process of the engine, on the request's goroutine; may be nil. It
	// must return soon.
	Revoked func(reason string)
	History History // nil = none
	// Ejected is called after each health check that failed while the endpoint is out
	// of service because of such failures: the engine is stopped or unreachable, not
	// merely slow. It must return soon; nil = not called.
	Ejected func()
	// Forgotten reports that the engine may hold blocks that History lacks, because the
	// router was killed: cached tokens prove nothing until the engine restarts or its
	// events are live.
	Forgotten bool

	// Interval is between two checks of health and metrics, jittered by a tenth.
	// Default 1 s: the age of the load figures that placement uses. A shorter one
	// costs the engine more than 1 % of a core for rendering its metrics.
	Interval time.Duration
	// Rediscover is between two discoveries of version, models and event sockets.
	// Default 60 s; a detected restart triggers one at once.
	Rediscover time.Duration
	// Timeout bounds one HTTP exchange with the engine. Default 2 s: an engine under
	// full load answers its health check within some hundred ms.
	Timeout time.Duration
	// FailAfter is how many health checks must fail in a row before the endpoint is
	// not ready; one that is refused outright counts twice. Default 3.
	FailAfter int
	// RiseAfter is how many must succeed in a row before it is ready again. Default
	// 2; the first one suffices at start.
	RiseAfter int
	// JoinWait bounds how long a healthy endpoint is kept back until its cache's
	// history has been replayed. Default 3 s: requests sent before would be
	// placed as if its cache were empty.
	JoinWait time.Duration
	// DeadAfter is how long an event stream may be down before the blocks it reported
	// are dropped and the endpoint's cache is predicted. Default 60 s.
	DeadAfter time.Duration
	// ParkBytes bounds what is kept of stored blocks whose parent is not known yet.
	// Default 1 MiB, some 200k tokens.
	ParkBytes int

	Client *http.Client // default: NewClient(nil)
	Log    *slog.Logger // default: discards
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&c.Interval, time.Second)
	def(&c.Rediscover, time.Minute)
	def(&c.Timeout, 2*time.Second)
	def(&c.JoinWait, 3*time.Second)
	def(&c.DeadAfter, time.Minute)
	num(&c.FailAfter, 3)
	num(&c.RiseAfter, 2)
	num(&c.ParkBytes, 1<<20)
	if c.Events.Mode == "" {
		c.Events.Mode = EventsAuto
	}
	if c.Dialect == nil {
		c.Dialect = dialect.Of(dialect.Default)
	}
	num(&c.Events.Port, c.Dialect.EventPort)
	num(&c.Events.ReplayPort, c.Events.Port+1)
	if c.Client == nil {
		c.Client = NewClient(nil)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate returns all errors of the configuration, joined.
func (c Config) Validate() error {
	var faults []error
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		faults = append(faults, fmt.Errorf("backend: endpoint URL %q is not http(s)://host:port", c.URL))
	}
	switch c.Events.Mode {
	case "", EventsAuto, EventsOn, EventsOff:
	default:
		faults = append(faults, fmt.Errorf("backend: event mode %q is not auto, on or off", c.Events.Mode))
	}
	if c.Interval < 0 || c.Rediscover < 0 || c.Timeout < 0 || c.JoinWait < 0 || c.DeadAfter < 0 ||
		c.FailAfter < 0 || c.RiseAfter < 0 || c.ParkBytes < 0 || c.BlockTokens < 0 || c.AssumedBlocks < 0 || c.Rank < 0 ||
		c.Probe.Every < 0 {
		faults = append(faults, errors.New("backend: negative time, count or size"))
	}
	return errors.Join(faults...)
}

// NewClient returns an HTTP client for watchers to share. t is for https engines,
// nil trusts the authorities of the system. It uses no proxy, no redirects, no
// compression (metrics are read once and small beside the cost of
// unpacking them), few idle connections per engine.
func NewClient(t *tls.Config) *http.Client {
	d := net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{DialContext: d.DialContext, TLSClientConfig: t, MaxIdleConnsPerHost: 2,
			IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// jitter returns a time within a tenth of d, so that watchers of many routers do
// not check an engine at the same time.
func jitter(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// holder returns the holder number of a tier of an endpoint.
func holder(id endpoint.ID, tier int) int { return kvindex.HolderOf(int(id), tier) }
