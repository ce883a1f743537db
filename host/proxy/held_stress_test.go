package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// stressRouter holds requests for random times and counts what it placed.
type stressRouter struct {
	*fakeRouter
	placed, waits, waited atomic.Int64
}

func (r *stressRouter) Schedule(q *Request) (Placement, error) {
	place := func() (Placement, error) {
		r.placed.Add(1)
		return r.fakeRouter.Schedule(q)
	}
	if rand.IntN(4) == 0 {
		return place()
	}
	d := time.Duration(rand.IntN(4000)) * time.Microsecond
	r.waits.Add(1)
	return nil, &Held{Wait: func(q *Request) (Placement, error) {
		defer r.waited.Add(1)
		id, model := q.ID, string(q.API.Model)
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-q.Gone():
			if rand.IntN(2) == 0 {
				return nil, errors.New("left")
			}
		case <-t.C:
		}
		q.Limits.Requests.Left++
		if q.ID != id || string(q.API.Model) != model || model != "m" {
			panic("BUG: the request is another's")
		}
		if rand.IntN(5) == 0 {
			return nil, llmapi.Refuse(llmapi.CodeModelNotStarted, "m")
		}
		return place()
	}}
}

// TestHeld_stress: clients that stay, leave at any time or come over HTTP/1.0,
// while engines answer, refuse and die, and at last the proxy ends. Every wait
// ends, every placement is done once, and each client that stayed got a whole
// answer or an error.
func TestHeld_stress(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, q *http.Request, e *engine) {
		switch rand.IntN(6) {
		case 0:
			http.Error(w, `{"error":"no"}`, 400)
			return
		case 1:
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{}}]}\n\n")
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})
	r := &stressRouter{fakeRouter: newRouter(e.addr)}
	r.ended = make(chan exchange.Outcome, 1<<20)
	x := startRouter(t, r, func(c *setup) { c.Heartbeat = time.Millisecond; c.DrainTimeout = time.Millisecond })
	x.r = r.fakeRouter
	var wg sync.WaitGroup
	var whole, notified, stayed atomic.Int64
	var ending atomic.Bool
	for range 16 {
		wg.Go(func() {
			for range 60 {
				raw := post(streamBody, "Connection: close\r\n")
				if rand.IntN(4) == 0 {
					raw = post(plainBody, "Connection: close\r\n")
				}
				if rand.IntN(4) == 0 {
					raw = strings.Replace(raw, "HTTP/1.1", "HTTP/1.0", 1)
				}
				c, err := net.Dial("tcp", x.addr)
				if err != nil {
					return // the end
				}
				c.SetDeadline(time.Now().Add(20 * time.Second))
				io.WriteString(c, raw)
				if rand.IntN(3) == 0 {
					io.CopyN(io.Discard, c, int64(rand.IntN(400)))
					c.Close()
					continue
				}
				all, _ := io.ReadAll(c)
				c.Close()
				b := string(all)
				stayed.Add(1)
				switch {
				case strings.Contains(b, "[DONE]"):
					whole.Add(1)
				case strings.Contains(b, `"error"`):
					notified.Add(1)
				case !ending.Load():
					t.Errorf("neither an end nor an error: %q", b)
				}
			}
		})
	}
	waitFor(t, func() bool { return stayed.Load() > 400 }, func() string { return "too slow" })
	ending.Store(true)
	x.stop()
	wg.Wait()
	x.settle(t)
	t.Logf("%d whole, %d notified, %d placed, %d held, %d heartbeats", whole.Load(), notified.Load(), r.placed.Load(),
		r.waits.Load(), x.Stats().Heartbeats)
	if r.waits.Load() != r.waited.Load() || int64(len(r.ended)) != r.placed.Load() {
		t.Errorf("%d of %d waits ended, %d of %d placements", r.waited.Load(), r.waits.Load(), len(r.ended), r.placed.Load())
	}
	if whole.Load() == 0 || notified.Load() == 0 || x.Stats().Heartbeats == 0 {
		t.Error("nothing was tried")
	}
}
