package autoscale

import (
	"slices"
	"time"
)

// member is one pool of a group and what the controller knows of it.
type member struct {
	Pool
	orders orders
	drains map[string]*draining
	seen   map[string]time.Time // ids that were ready once: when at last
	first  map[string]time.Time // ids that have not been ready since they appeared: when that was
	gone   map[string]time.Time // ids that were recently removed: when

	fresh   []string        // ordered ones that are ready for the first time
	warming map[string]bool // being prepared by the driver before they serve
	warmed  chan warmed     // MaxSize: of the calls that ended

	nodes   []Node // of this tick
	ready   int    // that serve or will again soon, and do not drain
	loading int    // that have never been ready
	failing int
	held    int // drained by an operator

	listed bool // the driver has listed its machines, or there is none
	lists  bool // its last answer had machines
	asked  time.Time
	need   *Order // to be sent to the driver, nil = nothing
	called bool   // the driver is being called
	dirty  bool   // the size changed since the last need
	why    string // of the last change of size
	tries  int    // failures in a row
	retry  time.Time
	seq    uint64
	result chan result // 1: of the call that runs
	errs   int
	err    string // of the last call, "" = it succeeded
}

// draining is an endpoint that is to be removed.
type draining struct {
	since    time.Time
	deadline time.Time
	stage    Drain
	final    bool // it was given notice: it does not return to service
	removing bool // its removal was ordered: it may disappear at any time
}

func newMember(p *Pool) *member {
	m := &member{Pool: *p, drains: map[string]*draining{}, seen: map[string]time.Time{}, first: map[string]time.Time{},
		gone: map[string]time.Time{}, result: make(chan result, 1),
		warming: map[string]bool{}, warmed: make(chan warmed, MaxSize)}
	m.Config = m.Config.withDefaults()
	m.listed = p.Driver == nil
	return m
}

// update replaces the nodes of the pool and derives their states.
func (m *member) update(nodes []Node, now time.Time) {
	m.nodes = nodes
	came := 0
	for i := range nodes {
		n := &nodes[i]
		last, was := m.seen[n.ID]
		if n.Held {
			n.Ready, n.Failing = false, false
			m.seen[n.ID] = now
			continue
		}
		if n.Ready && !was {
			if came++; came <= len(m.orders.wait) {
				m.fresh = append(m.fresh, n.ID)
			}
		}
		if n.Ready {
			m.seen[n.ID] = now
			delete(m.first, n.ID)
		} else if !was || n.Since.After(last) {
			if _, ok := m.first[n.ID]; !ok {
				m.first[n.ID] = now
			}
			n.Failing = n.Failing || now.Sub(m.first[n.ID]) > m.loadingTime()
		}
	}
	m.orders.arrived(came, now)
	m.forget()
	m.count()
}

// count counts the endpoints that do not drain, by state. One that was ready and is
// not counts as ready until the fleet reports it as failing.
func (m *member) count() {
	m.ready, m.loading, m.failing, m.held = 0, 0, 0, 0
	for i := range m.nodes {
		n := &m.nodes[i]
		_, was := m.seen[n.ID]
		switch {
		case m.drains[n.ID] != nil:
		case n.Held:
			m.held++
		case n.Failing:
			m.failing++
		case was:
			m.ready++
		default:
			m.loading++
		}
	}
}

// loadingTime is how long an endpoint may load before it counts as failing.
func (m *member) loadingTime() time.Duration {
	return max(2*m.cold(), time.Minute)
}

func (m *member) cold() time.Duration {
	if c := m.orders.cold.quantile(0.9); c > 0 {
		return c
	}
	return m.ColdStart
}

// forget drops what is kept of endpoints that are gone.
func (m *member) forget() {
	has := func(id string) bool {
		return slices.ContainsFunc(m.nodes, func(n Node) bool { return n.ID == id })
	}
	for id := range m.seen {
		if !has(id) {
			delete(m.seen, id)
		}
	}
	for id := range m.first {
		if !has(id) {
			delete(m.first, id)
		}
	}
	for id, d := range m.drains {
		if !has(id) && !d.removing {
			delete(m.drains, id)
		}
	}
}

// adoptLoading counts endpoints that were loading when the controller began as
// ordered.
func (m *member) adoptLoading(now time.Time) { m.orders.add(m.loading, now, m.ColdStart) }

// waiting returns the number of machines that were ordered and do not serve.
func (m *member) waiting() int { return max(len(m.orders.wait), m.loading) }

// size returns the endpoints that the pool has or will have without a further
// order.
func (m *member) size() int { return m.ready + m.waiting() }

// total returns the number of machines that exist or are ordered.
func (m *member) total() int { return m.ready + m.failing + m.held + m.waiting() + len(m.drains) }

func (m *member) ids() []string {
	out := make([]string, 0, len(m.nodes))
	for i := range m.nodes {
		out = append(out, m.nodes[i].ID)
	}
	return out
}
