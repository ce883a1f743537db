package autoscale

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestController_removalIsFinal: an endpoint whose removal was ordered does not
// return to service while it is unknown whether its machine still exists.
func TestController_removalIsFinal(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 3)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 6, Window: time.Minute,
		ColdStart: time.Minute}})
	c.apply = func(o *Order) (*Answer, error) {
		if len(o.Remove) > 0 {
			return nil, errDriver // the machine may be gone or not
		}
		return c.obey(o)
	}
	r.work = 0.3
	for range 400 {
		if r.run(tick); len(c.orders) > 0 {
			break
		}
	}
	if len(c.orders) == 0 || len(c.orders[0].Remove) == 0 {
		t.Fatal("nothing was to be removed")
	}
	gone := c.orders[0].Remove[0]
	r.work = 4
	r.run(2 * time.Minute)
	c.apply = c.obeyWhole
	r.run(10 * time.Minute)
	for _, a := range r.verbs(VerbUndrain) {
		for _, id := range a.IDs {
			if id == gone {
				t.Errorf("%s was brought back after its removal was ordered", gone)
			}
		}
	}
	if c.find("p", gone) != nil {
		t.Errorf("%s is still there", gone)
	}
	if n := c.ready("p"); n != 6 {
		t.Errorf("%d serve, want 6", n)
	}
}

// obeyWhole also removes.
func (c *cloud) obeyWhole(o *Order) (*Answer, error) {
	for _, id := range o.Remove {
		c.Remove(o.Pool, id)
	}
	again := *o
	again.Remove = nil
	return c.obey(&again)
}

// TestController_failsWhileLoading: a driver that fails permanently while more
// machines load than were ordered.
func TestController_failsWhileLoading(t *testing.T) {
	c := newCloud(t, time.Hour)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 8, Window: time.Minute,
		ColdStart: time.Hour}})
	r.run(tick)
	c.make("p") // not ordered
	c.make("p")
	c.apply = func(o *Order) (*Answer, error) { return nil, errDriver }
	r.c.Notice("p", c.nodes["p"][0].ID, c.now)
	r.run(10 * time.Minute) // its removal fails time and again
	if n := r.c.pools[0].waiting(); n != 2 {
		t.Errorf("%d awaited, want the 2 that load", n)
	}
}

// TestController_asksForAddresses: a driver whose machines have no address is called
// again until they have one.
func TestController_asksForAddresses(t *testing.T) {
	c := newCloud(t, 0)
	d := &slowCloud{cloud: c}
	r := newRig(t, c, nil, Pool{Name: "p", Driver: d,
		Config: Config{Target: 0.7, Min: 1, Max: 4, ColdStart: 2 * time.Minute}})
	r.run(2 * tick)
	if d.desired != 1 {
		t.Fatalf("%d machines ordered", d.desired)
	}
	d.known = c.now.Add(30 * time.Second)
	r.run(time.Minute)
	if n := c.ready("p"); n != 1 {
		t.Errorf("%d serve a minute after the order, want 1; failures %d", n, len(r.verbs(VerbExpire)))
	}
	lists := d.lists
	r.run(10 * time.Minute)
	if d.lists != lists {
		t.Errorf("listed %d times with nothing awaited", d.lists-lists)
	}
	if lists > 1+1+70/int(relistEvery.Seconds()) {
		t.Errorf("listed %d times in a minute", lists)
	}
}

// slowCloud reports addresses late, as clouds do.
type slowCloud struct {
	*cloud
	desired, lists int
	known          time.Time
}

func (s *slowCloud) List(context.Context, string) (*Answer, error) {
	s.lists++
	return s.answer(), nil
}

func (s *slowCloud) Apply(_ context.Context, o *Order) (*Answer, error) {
	s.desired = o.Desired
	return s.answer(), nil
}

// answer lists all machines, and gives the fleet those with an address: Adopt of
// the fake does nothing.
func (s *slowCloud) answer() *Answer {
	a := &Answer{Machines: []Machine{}}
	for i := range s.desired {
		m := Machine{ID: fmt.Sprint("m", i)}
		if !s.known.IsZero() && !s.now.Before(s.known) {
			m.URL = "http://10.0.0.1:8000"
			if s.find("p", m.ID) == nil {
				n := s.make("p")
				n.ID, n.up = m.ID, s.now
			}
		}
		a.Machines = append(a.Machines, m)
	}
	return a
}

// TestController_untruthfulDriver: a driver that lists other machines in each answer
// gets no more endpoints than the pool may have.
func TestController_untruthfulDriver(t *testing.T) {
	c := newCloud(t, 0)
	d := &liar{cloud: c}
	r := newRig(t, c, func(g *Group) { g.Fleet = d },
		Pool{Name: "p", Driver: d, Config: Config{Target: 0.7, Min: 1, Max: 3, ColdStart: time.Minute}})
	r.work = 10
	r.run(30 * time.Minute)
	r.work = 0
	r.run(30 * time.Minute)
	r.work = 10
	r.run(30 * time.Minute)
	if d.most > 2*3 { // as many drain, at most
		t.Errorf("%d endpoints at once in a pool of at most 3", d.most)
	}
}

type liar struct {
	*cloud
	most int
}

func (l *liar) Adopt(pool string, m []Machine) error {
	for _, x := range m {
		if l.find(pool, x.ID) == nil {
			n := l.make(pool)
			n.ID = x.ID
			n.down = true // and none of them serves
		}
	}
	l.most = max(l.most, len(l.nodes[pool]))
	return nil
}

func (l *liar) answer() *Answer {
	a := &Answer{}
	for range 50 {
		l.cloud.made++
		a.Machines = append(a.Machines, Machine{ID: fmt.Sprint("lie", l.cloud.made), URL: "http://10.0.0.1:8000"})
	}
	return a
}

func (l *liar) List(context.Context, string) (*Answer, error)  { return l.answer(), nil }
func (l *liar) Apply(context.Context, *Order) (*Answer, error) { return l.answer(), nil }

// TestController_gone: a machine that was removed and that the driver still lists,
// because it is shutting down, does not become an endpoint again.
func TestController_gone(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	f := &lingering{cloud: c}
	r := newRig(t, c, func(g *Group) { g.Fleet = f },
		Pool{Name: "p", Driver: f, Config: Config{Target: 0.7, Min: 1, Max: 4, Window: time.Minute,
			ColdStart: 30 * time.Second}})
	r.work = 0.3
	for range 200 {
		if r.run(tick); len(r.verbs(VerbRemove)) > 0 {
			break
		}
	}
	if len(r.verbs(VerbRemove)) != 1 {
		t.Fatalf("removed %+v", r.verbs(VerbRemove))
	}
	r.work = 1.2
	r.run(time.Minute) // an order, whose answer tells of the ending one too
	if f.back > 0 {
		t.Errorf("a removed machine was taken in again")
	}
}

// lingering lists machines for a while after they were removed.
type lingering struct {
	*cloud
	ended []Machine
	back  int
}

func (l *lingering) Adopt(_ string, m []Machine) error {
	for _, x := range m {
		for _, e := range l.ended {
			if e.ID == x.ID && l.find("p", x.ID) == nil {
				l.back++
			}
		}
	}
	return nil
}

func (l *lingering) Apply(_ context.Context, o *Order) (*Answer, error) {
	for _, id := range o.Remove {
		l.ended = append(l.ended, Machine{ID: id, URL: "http://10.0.0.1:8000"})
	}
	if _, err := l.obey(o); err != nil {
		return nil, err
	}
	a := &Answer{Machines: l.ended}
	for _, n := range l.Nodes("p") {
		if len(l.ended) == 0 || n.ID != l.ended[0].ID {
			a.Machines = append(a.Machines, Machine{ID: n.ID, URL: "http://10.0.0.2:8000"})
		}
	}
	return a, nil
}

// TestController_returningMachine: a machine that was started again and never serves
// counts as failing after a while, even though it served before.
func TestController_returningMachine(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 2, Max: 4, ColdStart: time.Minute}})
	r.run(time.Minute)
	dead := c.nodes["p"][1]
	dead.down, dead.Since = true, c.now.Add(tick)
	r.run(20 * time.Minute)
	if c.ready("p") != 2 || c.find("p", dead.ID) != nil {
		t.Errorf("%d serve, want 2; actions %+v", c.ready("p"), r.actions)
	}
}

// TestController_held: an endpoint that an operator has drained is replaced, and is
// neither removed nor returned to service.
func TestController_held(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 2, Max: 4, ColdStart: time.Minute}})
	r.run(time.Minute)
	held := c.nodes["p"][0]
	held.Held, held.down, held.InFlight = true, true, 1
	r.run(30 * time.Minute)
	if c.find("p", held.ID) == nil || held.drain != Serving {
		t.Errorf("the held one was drained or removed: %+v", r.actions)
	}
	if n := c.ready("p"); n != 2 {
		t.Errorf("%d serve beside it, want 2", n)
	}
	held.Held, held.down = false, false
	r.run(30 * time.Minute)
	if n := c.ready("p"); n != 2 {
		t.Errorf("%d serve when it is back, want 2", n)
	}
}

// TestCommand_leavesChildren: a driver may start machines as its children, which
// keep its pipes open.
func TestCommand_leavesChildren(t *testing.T) {
	c := &Command{Argv: []string{"sh", "-c",
		`cat >/dev/null; sleep 5 & echo '{"machines": [{"id": "a", "url": "http://127.0.0.1:1"}]}'`}}
	a, err := c.List(context.Background(), "p")
	if err != nil || len(a.Machines) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestCommand_equalAddresses: two machines with one address are refused.
func TestCommand_equalAddresses(t *testing.T) {
	_, err := parseAnswer([]byte(`{"machines": [{"id": "a", "url": "http://127.0.0.1:1"}, `+
		`{"id": "b", "url": "http://127.0.0.1:1/"}]}`), false)
	if err == nil {
		t.Error("two machines at one address were accepted")
	}
	if _, err := parseAnswer([]byte(`{"machines": [{"id": "a", "url": ""}, {"id": "b", "url": ""}]}`), false); err != nil {
		t.Errorf("two without an address: %v", err)
	}
}
