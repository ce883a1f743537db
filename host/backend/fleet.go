package backend

import (
	"context"
	"sync"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Fleet runs the watchers of all endpoints. Endpoints may be added and removed
// before and while it runs. All methods may be called concurrently; Run once.
type Fleet struct {
	index     Index
	assumed   Assumed
	endpoints Endpoints

	mu      sync.Mutex // guards the rest
	members map[endpoint.ID]*member
	start   func(*member)    // nil unless Run runs; called with mu held
	claimed map[string]claim // by event address
	wg      sync.WaitGroup
}

type member struct {
	w      *Watcher
	cancel context.CancelFunc // nil: not started
	done   chan struct{}
}

// claim is which engine an event address belongs to. Two endpoints may be one
// engine, in two pools.
type claim struct {
	url string
	n   int // endpoints that follow it
}

// NewFleet makes an empty fleet. assumed may be nil.
func NewFleet(index Index, assumed Assumed, endpoints Endpoints) *Fleet {
	return &Fleet{index: index, assumed: assumed, endpoints: endpoints, members: map[endpoint.ID]*member{},
		claimed: map[string]claim{}}
}

// Add makes a watcher for an endpoint that has been added to the store and starts
// it, at once or with Run. An endpoint that is watched already is removed first.
func (f *Fleet) Add(cfg Config) (*Watcher, error) {
	w, err := NewWatcher(cfg, f.index, f.assumed, f.endpoints)
	if err != nil {
		return nil, err
	}
	w.claim, w.release = f.claim, f.release
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.members[cfg.ID] != nil {
		f.mu.Unlock()
		f.Remove(cfg.ID)
		f.mu.Lock()
	}
	m := &member{w: w, done: make(chan struct{})}
	f.members[cfg.ID] = m
	if f.start != nil {
		f.start(m)
	}
	return w, nil
}

// Reconfigure changes the configuration of an endpoint's watcher, as
// [Watcher.Reconfigure] does. Endpoints that are not watched are ignored.
func (f *Fleet) Reconfigure(cfg Config) error {
	if w := f.Watcher(cfg.ID); w != nil {
		return w.Reconfigure(cfg)
	}
	return nil
}

// claim reserves an event address for an engine. Where engines do not report their
// addresses and a default port is used, two of one host would otherwise be followed
// on the same socket, and each get the blocks of the other.
func (f *Fleet) claim(address, url string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.claimed[address]
	if c.n > 0 && c.url != url {
		return false
	}
	f.claimed[address] = claim{url, c.n + 1}
	return true
}

func (f *Fleet) release(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.claimed[address]
	if c.n--; c.n <= 0 {
		delete(f.claimed, address)
		return
	}
	f.claimed[address] = c
}

// Remove ends an endpoint's watcher and waits for it. When Remove returns, the
// endpoint may be removed from the store.
func (f *Fleet) Remove(id endpoint.ID) {
	f.mu.Lock()
	m := f.members[id]
	delete(f.members, id)
	f.mu.Unlock()
	if m != nil && m.cancel != nil {
		m.cancel()
		<-m.done
	}
}

// Watcher returns an endpoint's watcher, nil if it has none.
func (f *Fleet) Watcher(id endpoint.ID) *Watcher {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[id]; m != nil {
		return m.w
	}
	return nil
}

// ObserveCached takes the outcome of a request on an endpoint: tokens predicted
// and tokens reported as cached. Endpoints that are not watched are ignored.
func (f *Fleet) ObserveCached(id endpoint.ID, predicted, reported int) {
	if w := f.Watcher(id); w != nil {
		w.ObserveCached(predicted, reported)
	}
}

// ObserveSilent takes the outcome of a request that did not report cached tokens.
func (f *Fleet) ObserveSilent(id endpoint.ID, predicted int) {
	if w := f.Watcher(id); w != nil {
		w.ObserveSilent(predicted)
	}
}

// Revoke takes an endpoint's isolation away, and reports whether the answer proves
// anything; see [Watcher.Revoke].
func (f *Fleet) Revoke(id endpoint.ID, excess int) (proof bool) {
	w := f.Watcher(id)
	return w != nil && w.Revoke(excess)
}

// Run runs the watchers until ctx ends and all of them have, and returns ctx's
// error.
func (f *Fleet) Run(ctx context.Context) error {
	f.mu.Lock()
	f.start = func(m *member) {
		mctx, cancel := context.WithCancel(ctx)
		m.cancel = cancel
		f.wg.Go(func() {
			defer close(m.done)
			m.w.Run(mctx)
		})
	}
	for _, m := range f.members {
		f.start(m)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.start = nil
	f.mu.Unlock()
	f.wg.Wait()
	return ctx.Err()
}
