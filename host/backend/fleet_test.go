package backend

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

func TestFleet(t *testing.T) {
	a, b := newFakeEngine(t), newFakeEngine(t)
	x := newMapIndex()
	store := endpoint.NewStore()
	f := NewFleet(x, nil, store)
	cfg := func(e *fakeEngine) Config {
		id, err := store.Add(endpoint.Info{URL: e.URL, Addr: e.Listener.Addr().String(), Pool: "p"})
		if err != nil {
			t.Fatal(err)
		}
		return Config{ID: id, URL: e.URL, Interval: time.Millisecond, JoinWait: time.Millisecond, Events: Events{Port: 1}}
	}
	first := cfg(a)
	if _, err := f.Add(first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	second := cfg(b)
	if _, err := f.Add(second); err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("timed out waiting for", what)
			}
		}
	}
	until("both ready", func() bool { s := store.Load(); return s.Ready.Has(first.ID) && s.Ready.Has(second.ID) })
	// Both engines are of one host and cannot report their event sockets: the port
	// that is taken for granted can be only one's.
	until("one to have the port", func() bool {
		s, u := f.Watcher(first.ID).Status(), f.Watcher(second.ID).Status()
		const taken = "event address tcp://127.0.0.1:1 is another engine's"
		return (s.EventsReason == taken) != (u.EventsReason == taken)
	})
	f.ObserveCached(first.ID, 100, 100)
	f.ObserveSilent(second.ID, 100)
	f.ObserveCached(77, 1, 1)
	if !f.Watcher(second.ID).Status().Trust.Unverified || f.Watcher(first.ID).Status().Trust.Unverified {
		t.Error("wrong one unverified")
	}
	f.Remove(first.ID)
	store.Remove(first.ID)
	if f.Watcher(first.ID) != nil {
		t.Error("still there")
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
	if store.Load().Ready.Has(second.ID) {
		t.Error("ready after the end")
	}
}

func TestFleet_stress(t *testing.T) {
	e := newFakeEngine(t)
	f := NewFleet(newMapIndex(), nil, newBoard())
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for j := range 20 {
				id := endpoint.ID((i + j) % 3)
				switch j % 4 {
				case 0, 2:
					if _, err := f.Add(Config{ID: id, URL: e.URL, Interval: time.Millisecond,
						Events: Events{Mode: EventsOff}}); err != nil {
						t.Error(err)
					}
				case 1:
					f.ObserveCached(id, 10, 10)
					if w := f.Watcher(id); w != nil {
						w.Status()
					}
				case 3:
					f.Remove(id)
				}
			}
		})
	}
	work.Wait()
	cancel()
	wg.Wait()
}
