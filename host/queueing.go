package host

import (
	"errors"
	"strconv"
	"time"

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
func (h *Host) place(req *scheduler.Request, gone func() <-chan struct{}) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = true, h.queue.Busy
	p, err := h.decide(req)
	want := wanted(err)
	if want == nil {
		return p, err
	}
	w := h.queue.Enter(queue.Want{Lane: want.Lane, Pools: want.Pools, Tenant: tenantOf(req), Priority: want.Priority, Tokens: want.Tokens}, want.Limit, h.now())
	if w == nil {
		return h.last(req)
	}
	req.Behind = nil
	begun := h.now()
	late := time.NewTimer(want.Deadline)
	defer late.Stop()
	for left := gone(); ; {
		select {
		case <-w.Turn():
			req.Queued = h.now().Sub(begun)
			if p, err = h.decide(req); wanted(err) == nil {
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
			return h.last(req)
		}
	}
}

// last decides on a request that may not wait any more.
func (h *Host) last(req *scheduler.Request) (*scheduler.Placement, error) {
	req.MayWait, req.Behind = false, nil
	return h.decide(req)
}

// decide has the rules in force decide. A refusal that the request waits on is no
// decision yet and not logged.
func (h *Host) decide(req *scheduler.Request) (*scheduler.Placement, error) {
	l := h.rules.Acquire()
	defer l.Release()
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
