package host

import (
	"errors"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/queue"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// queueEvery is how often those who wait get a chance that no request's end gave
// them: an endpoint came, a cap was raised.
const queueEvery = 100 * time.Millisecond

// errLeft ends the wait of a client that left; nobody sees it.
var errLeft = errors.New("host: the client left the queue")

// place decides on a request and, while every endpoint is full, lets it wait as its
// profile says. Each decision is made anew under the rules in force then; a request
// that waits holds neither rules nor budget.
func (h *Host) place(r caller, req *scheduler.Request) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = true, h.queue.Busy
	p, err := h.decide(r, req)
	want := wanted(err)
	if want == nil {
		return p, err
	}
	w := h.queue.Enter(queue.Want{Lane: want.Lane, Pools: want.Pools, Tenant: tenantOf(req), Priority: want.Priority, Tokens: want.Tokens}, want.Limit, h.now())
	if w == nil {
		return h.last(r, req)
	}
	req.Behind = nil
	begun := h.now()
	late := time.NewTimer(want.Deadline)
	defer late.Stop()
	for left := r.Gone(); ; {
		select {
		case <-w.Turn():
			req.Queued = h.now().Sub(begun)
			if p, err = h.decide(r, req); wanted(err) == nil {
				w.Leave(queue.Placed, h.now())
				return p, err
			}
			w.Again()
		case <-left:
			w.Leave(queue.Left, h.now())
			return nil, errLeft
		case <-late.C:
			w.Leave(queue.Expired, h.now())
			req.Queued = h.now().Sub(begun)
			return h.last(r, req)
		}
	}
}

// last decides on a request that may not wait any more.
func (h *Host) last(r caller, req *scheduler.Request) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = false, nil
	return h.decide(r, req)
}

// caller is the request as the client sent it.
type caller interface {
	// Gone returns a channel that is closed when the client has left.
	Gone() <-chan struct{}
	// head sets in req what the head says and who sent it, if the head was read by e;
	// if not it is read by the rules in force first, and again is true.
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

// decide has the rules in force decide, by which the request is authenticated
// again if it was so by others. A refusal that the request waits on is no decision
// yet and not logged.
func (h *Host) decide(r caller, req *scheduler.Request) (*scheduler.Placement, error) {
	l := h.rules.Acquire()
	again, err := r.head(l.Value().edge, req)
	for again && err == nil {
		l.Release()
		l = h.rules.Acquire()
		again, err = r.head(l.Value().edge, req)
	}
	defer l.Release()
	if err != nil {
		return nil, err
	}
	reserved, ok := h.reserveLog()
	if !ok {
		return nil, errNoAudit
	}
	p, err := l.Value().scheduler.Schedule(req)
	if wanted(err) != nil {
		if reserved {
			h.decisions.Cancel()
		}
		return nil, err
	}
	h.logDecision(l.Value(), req, p, err, reserved)
	return p, err
}

// wanted returns what a refused request may wait for, nil = nothing.
func wanted(err error) *scheduler.Wait {
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

// tellWait adds to a refusal how long the request waited for a place.
func tellWait(err error, waited time.Duration) error {
	d, ok := errors.AsType[*scheduler.DeniedError](err)
	if !ok || waited <= 0 {
		return err
	}
	told := *d // explain has the other
	told.Message += "; it waited " + strconv.FormatFloat(waited.Seconds(), 'f', 1, 64) + " s for a place"
	return &told
}
