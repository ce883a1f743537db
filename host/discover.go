package host

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

// finder asks one pool's source.
type finder struct {
	pool   string
	cfg    config.Discover
	source discovery.Source
	next   time.Time
	fault  string // of the last time, "" = none
}

// discoverEvery is how often it is looked whose turn it is.
const discoverEvery = 200 * time.Millisecond

// discoverTimeout bounds one question to a source.
const discoverTimeout = 10 * time.Second

// discover keeps the endpoints of pools that have a source as it tells, until ctx
// ends.
func (h *Host) discover(ctx context.Context) error {
	finders := map[string]*finder{}
	t := time.NewTicker(discoverEvery)
	defer t.Stop()
	for {
		h.finders(finders)
		var wg sync.WaitGroup
		for _, f := range finders {
			if now := h.now(); !now.Before(f.next) {
				f.next = now.Add(time.Duration(f.cfg.Every))
				wg.Go(func() { h.find(ctx, f) })
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

// finders makes all those of the configuration in force, and forgets others.
func (h *Host) finders(all map[string]*finder) {
	l := h.rules.Acquire()
	defer l.Release()
	want := map[string]config.Discover{}
	for i := range l.Value().cfg.Pools {
		if p := &l.Value().cfg.Pools[i]; p.Discover.On() {
			want[p.Name] = p.Discover
		}
	}
	for name, f := range all {
		if !reflect.DeepEqual(want[name], f.cfg) {
			delete(all, name)
			if _, stays := want[name]; !stays {
				h.setFound(name, nil)
			}
		}
	}
	for name, c := range want {
		if all[name] == nil {
			all[name] = &finder{pool: name, cfg: c, source: h.discoverySource(&c)}
		}
	}
}

func (h *Host) discoverySource(c *config.Discover) discovery.Source {
	if c.Plugin != "" {
		return &discovery.File{Path: c.File, Read: h.plugins.EndpointReader(c.Plugin)}
	}
	if c.File != "" {
		return &discovery.File{Path: c.File}
	}
	return &discovery.DNS{Name: c.DNS, Port: c.Port}
}

// find asks a source once. What it told before stays when it is of no use.
func (h *Host) find(ctx context.Context, f *finder) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	urls, err := f.source.Find(ctx)
	if err == nil {
		err = h.take(f, urls)
	}
	fault := ""
	if err != nil && ctx.Err() == nil {
		fault = err.Error()
	}
	if fault != f.fault && fault != "" {
		h.log.Warn("discovery is of no use, the endpoints before stay", "pool", f.pool, "err", fault)
		h.note("discovery:find", "pool/"+f.pool, err)
	}
	f.fault = fault
}

// take makes what a source told the endpoints, but for those outside the allow-list
// and those that policy refuses. Where the list leaves none, those before stay.
func (h *Host) take(f *finder, urls []string) error {
	urls, outside := within(&f.cfg, urls)
	if len(urls) == 0 {
		return outside
	}
	urls, refused := h.admit(f.pool, urls)
	return errors.Join(outside, refused, h.setFound(f.pool, urls))
}

// within leaves out the endpoints outside the allow-list, and tells which.
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
		err = fmt.Errorf("host: %d endpoints are not in discover.allow: %s", len(out), strings.Join(out[:min(len(out), shown)], " "))
	}
	return in, err
}

// setFound makes urls the endpoints that discovery tells of a pool.
func (h *Host) setFound(pool string, urls []string) error {
	f := h.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	had := f.found[pool]
	if slices.Equal(had, urls) {
		return nil
	}
	f.found[pool] = urls
	err := f.syncLocked()
	if err != nil {
		f.found[pool] = had
		err = errors.Join(err, f.syncLocked())
	}
	return err
}
