package fleet

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Change puts a plan in force in two steps, so that rules can be swapped between them:
// Switch gives the endpoints that stay their attributes by the plan and takes those that
// go out of the reach of requests, in one snapshot of the store and within microseconds;
// End adds those that come, ends watchers, and reconfigures those that stay. A Change
// holds the lock of the fleet from Begin to End: discovery and drivers wait. It belongs
// to one goroutine, which must call End.
type Change struct {
	f      *Fleet
	plan   *Plan
	retire []endpoint.ID
	infos  map[endpoint.ID]endpoint.Info
	done   bool // Switch was called
}

// Begin prepares the change to a plan, which is not in force before Switch. It waits for
// changes of discovery and drivers.
func (f *Fleet) Begin(p *Plan) *Change {
	f.mu.Lock()
	c := &Change{f: f, plan: p, infos: map[endpoint.ID]endpoint.Info{}}
	want, _ := f.targetsLocked(p)
	for k, m := range f.members {
		t, stays := want[k]
		switch {
		case !stays:
			c.retire = append(c.retire, m.id)
		case m.attrs.info != t.attrs.info:
			c.infos[m.id] = f.info(p, t)
		}
	}
	return c
}

// Switch puts the plan in force: snapshots of the store have its edition. Requests that
// are in flight on endpoints that go end normally. It may be called under a lock.
func (c *Change) Switch() {
	c.f.plan, c.done = c.plan, true
	c.f.cfg.Store.Switch(c.plan.edition, c.retire, c.infos)
}

// End makes the endpoints those of the plan in force. Discovered endpoints and machines
// that do not fit beside those that the plan lists are left out and logged. Without
// Switch it changes nothing.
func (c *Change) End() {
	defer c.f.mu.Unlock()
	if !c.done {
		return
	}
	if left := c.f.reconcileLocked(); len(left) > 0 {
		c.f.cfg.Log.Error("endpoints ignored: the router has no free slots",
			"endpoints", strings.Join(urlsOf(left), " "), "most", config.MaxEndpoints)
	}
}
