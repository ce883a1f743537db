package route

import (
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// placement adapts a scheduler's placement to the proxy, so that neither depends on the
// other. It is used by one goroutine.
type placement struct {
	p *scheduler.Placement

	// Set if the outcome is to be logged.
	log                  *Log
	decision, id, tenant string
	now                  func() time.Time
}

// Target implements proxy.Placement.
func (p *placement) Target() *exchange.Target { return &p.p.Target().Target }

// Next implements proxy.Placement.
func (p *placement) Next(status int) bool { return p.p.NextAfter(status) }

// FirstToken implements proxy.Placement.
func (p *placement) FirstToken() { p.p.FirstToken() }

// Answered implements proxy.Placement.
func (p *placement) Answered(id string) { p.p.Answered(id) }

// Done implements proxy.Placement.
func (p *placement) Done(o *exchange.Outcome) {
	if p.log != nil {
		p.log.ended(p.decision, p.id, p.tenant, p.p, o, p.now())
	}
	p.p.Done(*o)
	p.p = nil
}
