package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/discovery"
)

// DiscoveryConfig is what a Discovery is made of. All fields are required.
type DiscoveryConfig struct {
	Fleet     *Fleet
	Admission *Admission
	// Reader returns the plugin of a name as the reader of documents that list
	// endpoints.
	Reader func(plugin string) func(document []byte) ([]string, error)
	// Failed is called once when a source begins to fail, or fails otherwise.
	Failed func(pool string, err error)
	Now    func() time.Time
}

// Discovery asks the sources of pools for their endpoints. Run it once.
type Discovery struct {
	cfg     DiscoveryConfig
	sources map[string]*source // by pool; belongs to Run
}

// source is one pool's.
type source struct {
	pool  string
	cfg   config.Discover
	from  discovery.Source
	next  time.Time
	fault string // of the last time, "" = none
}

// discoverEvery is how often Run looks which sources are due.
const discoverEvery = 200 * time.Millisecond

// discoverTimeout bounds one question to a source.
const discoverTimeout = 10 * time.Second

// NewDiscovery returns a discovery that is not running.
func NewDiscovery(cfg DiscoveryConfig) *Discovery {
	return &Discovery{cfg: cfg, sources: map[string]*source{}}
}

// Run keeps the endpoints of pools that have a source as it lists them, until ctx
// ends.
func (d *Discovery) Run(ctx context.Context) error {
	t := time.NewTicker(discoverEvery)
	defer t.Stop()
	for {
		d.follow(d.cfg.Fleet.sources())
		var wg sync.WaitGroup
		for _, s := range d.sources {
			if now := d.cfg.Now(); !now.Before(s.next) {
				s.next = now.Add(time.Duration(s.cfg.Every))
				wg.Go(func() { d.find(ctx, s) })
			}
		}
		wg.Wait()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow makes the sources those of want, by pool.
func (d *Discovery) follow(want map[string]config.Discover) {
	for name, s := range d.sources {
		if reflect.DeepEqual(want[name], s.cfg) {
			continue
		}
		delete(d.sources, name)
		if _, stays := want[name]; !stays {
			d.cfg.Fleet.setDiscovered(name, nil)
		}
	}
	for name, c := range want {
		if d.sources[name] == nil {
			d.sources[name] = &source{pool: name, cfg: c, from: d.open(&c)}
		}
	}
}

func (d *Discovery) open(c *config.Discover) discovery.Source {
	if c.Plugin != "" {
		return &discovery.File{Path: c.File, Read: d.cfg.Reader(c.Plugin)}
	}
	if c.File != "" {
		return &discovery.File{Path: c.File}
	}
	return &discovery.DNS{Name: c.DNS, Port: c.Port}
}

// find asks a source once. If it fails, the endpoints it listed last stay.
func (d *Discovery) find(ctx context.Context, s *source) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	urls, err := s.from.Find(ctx)
	if err == nil {
		err = d.take(s, urls)
	}
	fault := ""
	if err != nil && ctx.Err() == nil {
		fault = err.Error()
	}
	if fault != s.fault && fault != "" {
		d.cfg.Failed(s.pool, err)
	}
	s.fault = fault
}

// take makes the URLs of a source endpoints, except those outside the allow-list
// and those that the policy refuses. If the list leaves none, the previous ones
// stay.
func (d *Discovery) take(s *source, urls []string) error {
	urls, outside := within(&s.cfg, urls)
	if len(urls) == 0 {
		return outside
	}
	pool, had := d.cfg.Fleet.discoveredOf(s.pool)
	if pool == nil {
		return outside // the pool is gone; follow drops the source
	}
	urls, refused := d.cfg.Admission.admitted(pool, urls, had)
	return errors.Join(outside, refused, d.cfg.Fleet.setDiscovered(s.pool, urls))
}

// within leaves out the endpoints outside the allow-list, and names them in err.
func within(d *config.Discover, urls []string) (in []string, err error) {
	var out []string
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && d.Allows(u.Hostname()) {
			in = append(in, s)
		} else {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		const shown = 8
		err = fmt.Errorf("fleet: %d endpoints are not in discover.allow: %s", len(out),
			strings.Join(out[:min(len(out), shown)], " "))
	}
	return in, err
}

// sources returns the sources of the plan in force, by pool.
func (f *Fleet) sources() map[string]config.Discover {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]config.Discover{}
	for name, p := range f.plan.pools {
		if p.cfg.Discover.On() {
			out[name] = p.cfg.Discover
		}
	}
	return out
}

// discoveredOf returns a pool of the plan in force, nil if it has none of the
// name, and the URLs that discovery has found for it.
func (f *Fleet) discoveredOf(pool string) (*config.Pool, []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.plan.pools[pool]
	if p == nil {
		return nil, nil
	}
	return p.cfg, f.discovered[pool]
}

// setDiscovered makes urls the endpoints that discovery has found for a pool.
// Those for which there is no room are left out and named in the error.
func (f *Fleet) setDiscovered(pool string, urls []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Equal(f.discovered[pool], urls) {
		return nil
	}
	f.discovered[pool] = urls
	full := fullError(f.reconcileLocked(), pool)
	if full == nil {
		return nil
	}
	f.discovered[pool] = slices.DeleteFunc(slices.Clone(urls),
		func(u string) bool { return slices.Contains(full.urls, u) })
	return full
}
