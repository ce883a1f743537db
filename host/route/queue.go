package route

import (
	"errors"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// errLeft is the result of a wait whose client has disconnected; it is never sent.
var errLeft = errors.New("route: the client disconnected while its request waited")

// place decides on a request and, while every endpoint is at its cap, lets it wait as
// its profile configures. Each decision is made again under the rules then in force; a
// waiting request holds neither a lease on rules nor budget.
func (t *Router) place(c caller, req *scheduler.Request) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = true, t.cfg.Queue.Busy
	p, err := t.decide(c, req)
	want := waitOf(err)
	if want == nil {
		return p, err
	}
	place := queue.Want{
		Lane: want.Lane, Pools: want.Pools, Tenant: tenantOf(req), Priority: want.Priority, Tokens: want.Tokens,
	}
	if delay, known := t.cfg.Queue.Expect(place, t.cfg.Now()); known && want.MaxDelay > 0 && delay > want.MaxDelay {
		if p, err = t.decideLast(c, req); err != nil {
			t.cfg.Queue.Slow()
		}
		return p, withDelay(err, delay)
	}
	w := t.cfg.Queue.Enter(place, want.Limit, t.cfg.Now())
	if w == nil {
		return t.decideLast(c, req)
	}
	req.Behind = nil
	begun := t.cfg.Now()
	late := time.NewTimer(want.Deadline)
	defer late.Stop()
	for left := c.Gone(); ; {
		select {
		case <-w.Turn():
			req.Queued = t.cfg.Now().Sub(begun)
			if p, err = t.decide(c, req); waitOf(err) == nil {
				w.Leave(queue.Placed, t.cfg.Now())
				return p, err
			}
			w.Again()
		case <-left:
			w.Leave(queue.Left, t.cfg.Now())
			return nil, errLeft
		case <-late.C:
			w.Leave(queue.Expired, t.cfg.Now())
			req.Queued = t.cfg.Now().Sub(begun)
			return t.decideLast(c, req)
		}
	}
}

// decideLast decides on a request that must not wait again.
func (t *Router) decideLast(c caller, req *scheduler.Request) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = false, nil
	return t.decide(c, req)
}

// caller is the request as the client sent it.
type caller interface {
	// Gone returns a channel that is closed when the client has disconnected.
	Gone() <-chan struct{}
	// head sets the fields of req that come from the request's head and its sender, if the
	// head was read with e. Otherwise it first reads the head with the rules in force, and
	// again is true.
	head(e *proxy.Edge, req *scheduler.Request) (again bool, err error)
}

// proxied is a request of the proxy.
type proxied struct{ *proxy.Request }

func (r proxied) head(e *proxy.Edge, req *scheduler.Request) (again bool, err error) {
	if again = r.Edge != e; again {
		err = r.Renew()
	}
	req.Principal, req.Session, req.Priority, req.Labels = r.Principal, r.Session, r.Priority, r.Labels
	return again, err
}

// decide has the rules in force decide. If the request was authenticated by earlier
// rules, it is authenticated again. A refusal after which the request waits is not
// final and not logged.
func (t *Router) decide(c caller, req *scheduler.Request) (*scheduler.Placement, error) {
	for {
		p, err := t.decideOnce(c, req)
		if err != scheduler.ErrReplaced {
			return p, err
		}
		time.Sleep(replacedWait)
	}
}

// replacedWait is the time between two tries of a decision while the rules are being
// replaced, which takes two stores of pointers.
const replacedWait = 20 * time.Microsecond

// decideOnce is one try of decide. Its error is scheduler.ErrReplaced if the rules are
// being replaced.
func (t *Router) decideOnce(c caller, req *scheduler.Request) (*scheduler.Placement, error) {
	l := t.cfg.Rules.Acquire()
	again, err := c.head(l.Edge, req)
	for again && err == nil {
		l.Release()
		l = t.cfg.Rules.Acquire()
		again, err = c.head(l.Edge, req)
	}
	defer l.Release()
	if err != nil {
		return nil, err
	}
	reserved, err := t.cfg.Log.reserve()
	if err != nil {
		return nil, err
	}
	p, err := l.Scheduler.Schedule(req)
	if err == scheduler.ErrReplaced || waitOf(err) != nil {
		t.cfg.Log.cancel(reserved)
		return nil, err
	}
	req.Logged = t.cfg.Log.record(l.LogPolicy, req, p, err, reserved, t.cfg.Now())
	return p, err
}

// waitOf returns what a refused request may wait for, nil = nothing.
func waitOf(err error) *scheduler.Wait {
	if d, ok := errors.AsType[*scheduler.DeniedError](err); ok {
		return d.Wait
	}
	return nil
}

func tenantOf(r *scheduler.Request) string {
	if r.Principal == nil {
		return ""
	}
	return r.Principal.Tenant
}

// withDelay adds to a refusal how long the request would have waited for an endpoint.
func withDelay(err error, delay time.Duration) error {
	d, ok := errors.AsType[*scheduler.DeniedError](err)
	if !ok {
		return err
	}
	out := *d // the trace holds d
	out.Message += " The expected wait is " + strconv.FormatFloat(delay.Seconds(), 'f', 1, 64) + " s."
	out.RetryAfter = max(out.RetryAfter, min(delay, maxRetryAfter))
	return &out
}

// maxRetryAfter bounds how long a client is asked to wait: longer estimates are
// meaningless.
const maxRetryAfter = 5 * time.Minute

// withWait adds to a refusal how long the request waited for an endpoint.
func withWait(err error, waited time.Duration) error {
	d, ok := errors.AsType[*scheduler.DeniedError](err)
	if !ok || waited <= 0 {
		return err
	}
	out := *d // the trace holds d
	out.Message += " The request waited " + strconv.FormatFloat(waited.Seconds(), 'f', 1, 64) + " s."
	return &out
}
