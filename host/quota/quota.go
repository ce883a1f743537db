// Package quota counts what tenants use against their limits: requests in
// flight, and requests and tokens per minute. The limits come with each request;
// what is counted here outlives any change of them, so that a reload gives
// nobody a fresh minute.
//
// A budget per minute is a bucket that holds a minute's worth and refills
// evenly. Tokens are reserved when a request is placed, for its prompt and the
// answer it may get, and settled when the engine has said what they were.
package quota

import (
	"math"
	"sync"
	"time"
)

// Key names a budget: requests of one tenant and rate class share it.
type Key struct{ Tenant, Class string }

// Limits of one budget; 0 = none.
type Limits struct {
	Concurrency int // requests in flight
	Requests    int // per minute
	Tokens      int // per minute, prompt and output
}

// none reports whether nothing is limited.
func (l *Limits) none() bool { return l.Concurrency <= 0 && l.Requests <= 0 && l.Tokens <= 0 }

// What a refusal is for.
const (
	Concurrency = "concurrency"
	Requests    = "requests"
	Tokens      = "tokens"
)

// Refusal says why a request is over its limits. The zero value refuses nothing.
type Refusal struct {
	What  string        // one of Concurrency, Requests, Tokens
	Limit int           // that it is over
	After time.Duration // when a retry may succeed; 0 with Never
	Never bool          // the request alone is more than a minute's worth
}

// Remaining is what is left of one budget.
type Remaining struct {
	Limit int           // per minute, 0 = none
	Left  int           // of it, ≥ 0
	Reset time.Duration // until all of it is there again
}

// Usage is what a client is told of its budgets.
type Usage struct{ Requests, Tokens Remaining }

// maxAccounts bounds the budgets that are kept apart. Tenants come from issued
// keys and classes from the policy, so a site has far fewer; each takes about
// 200 bytes.
const maxAccounts = 1 << 16

// Stats counts since the table was made.
type Stats struct {
	Accounts int               // budgets in use
	Refused  map[string]uint64 // by Refusal.What
	Shared   uint64            // requests counted in the common overflow budget of their limits
}

// Table holds the budgets. All methods may be called concurrently.
type Table struct {
	now func() time.Time

	mu       sync.RWMutex // guards the fields below; taken before account.mu
	accounts map[Key]*account
	max      int
	swept    time.Time

	overflow account
	count    struct {
		sync.Mutex // guards the fields below
		refused    map[string]uint64
		shared     uint64
	}
}

// New returns an empty table. now is the clock, nil = time.Now.
func New(now func() time.Time) *Table {
	if now == nil {
		now = time.Now
	}
	t := &Table{now: now, accounts: map[Key]*account{}, max: maxAccounts}
	t.count.refused = map[string]uint64{}
	return t
}

// account is one budget.
type account struct {
	mu       sync.Mutex // guards the fields below
	gone     bool       // swept: nobody may count here any more
	inflight int
	requests bucket
	tokens   bucket
}

// bucket is what was taken of a budget and has not come back yet.
type bucket struct {
	used  float64 // < 0 never; may exceed the limit, as debt
	rate  float64 // per second, of the last limit
	at    time.Time
	valid bool // at is set
}

// fill gives back what has come since the last time.
func (b *bucket) fill(limit int, now time.Time) {
	if b.valid {
		if d := now.Sub(b.at).Seconds(); d > 0 {
			b.used = max(0, b.used-d*b.rate)
			b.at = now
		}
	} else {
		b.at, b.valid = now, true
	}
	b.rate = float64(limit) / 60
}

// wait returns how long until n more fit, 0 = at once.
func (b *bucket) wait(n, limit int) time.Duration {
	over := b.used + float64(n) - float64(limit)
	if over <= 1e-9 {
		return 0
	}
	return time.Duration(math.Ceil(over/b.rate*1e3-1e-6)) * time.Millisecond
}

func (b *bucket) remaining(limit int) Remaining {
	if limit <= 0 {
		return Remaining{}
	}
	r := Remaining{Limit: limit, Left: max(0, int(float64(limit)-b.used+1e-9))}
	if b.used > 0 {
		r.Reset = time.Duration(b.used / b.rate * float64(time.Second)).Round(time.Millisecond)
	}
	return r
}

// Grant is a request's claim on a budget. The zero Grant claims nothing. Its
// owner calls any number of Reserve, then one of Settle and Cancel. It is not
// safe for concurrent use.
type Grant struct {
	t        *Table
	a        *account
	limits   Limits
	reserved int
}

// Begin claims one request. It refuses one that is over the limits of requests
// in flight or per minute, or whose tokens are used up already.
func (t *Table) Begin(k Key, l Limits) (Grant, Usage, Refusal) {
	if l.none() {
		return Grant{}, Usage{}, Refusal{}
	}
	now := t.now()
	a := t.account(k, now)
	defer a.mu.Unlock()
	if l.Requests > 0 {
		a.requests.fill(l.Requests, now)
	}
	if l.Tokens > 0 {
		a.tokens.fill(l.Tokens, now)
	}
	why := a.over(&l)
	if why.What == "" {
		a.inflight++
		if l.Requests > 0 {
			a.requests.used++
		}
	} else {
		t.refused(why.What)
	}
	u := a.usage(&l)
	if why.What != "" {
		return Grant{}, u, why
	}
	return Grant{t: t, a: a, limits: l}, u, why
}

// retryConcurrency is when a retry is told to come for a place that is taken:
// nobody knows when a stream ends.
const retryConcurrency = time.Second

// over says which limit one more request is over. The lock is held.
func (a *account) over(l *Limits) Refusal {
	if l.Concurrency > 0 && a.inflight >= l.Concurrency {
		return Refusal{What: Concurrency, Limit: l.Concurrency, After: retryConcurrency}
	}
	if l.Requests > 0 {
		if w := a.requests.wait(1, l.Requests); w > 0 {
			return Refusal{What: Requests, Limit: l.Requests, After: w}
		}
	}
	if l.Tokens > 0 {
		if w := a.tokens.wait(1, l.Tokens); w > 0 {
			return Refusal{What: Tokens, Limit: l.Tokens, After: w}
		}
	}
	return Refusal{}
}

func (a *account) usage(l *Limits) Usage {
	return Usage{Requests: a.requests.remaining(l.Requests), Tokens: a.tokens.remaining(l.Tokens)}
}

// account returns the budget of k, locked.
func (t *Table) account(k Key, now time.Time) *account {
	for {
		t.mu.RLock()
		a := t.accounts[k]
		t.mu.RUnlock()
		if a == nil {
			a = t.open(k, now)
		}
		a.mu.Lock()
		if !a.gone {
			return a
		}
		a.mu.Unlock()
	}
}

// open makes a budget. When there are too many, those in which nothing is used
// go; when there are none of these, the request counts in a common one.
func (t *Table) open(k Key, now time.Time) *account {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.accounts[k]; a != nil {
		return a
	}
	if len(t.accounts) >= t.max && (t.swept.IsZero() || now.Sub(t.swept) >= time.Second) {
		t.sweepLocked(now)
	}
	if len(t.accounts) >= t.max {
		t.count.Lock()
		t.count.shared++
		t.count.Unlock()
		return &t.overflow
	}
	a := new(account)
	t.accounts[k] = a
	return a
}

func (t *Table) sweepLocked(now time.Time) {
	t.swept = now
	for k, a := range t.accounts {
		a.mu.Lock()
		if a.inflight == 0 && a.requests.idle(now) && a.tokens.idle(now) {
			a.gone = true
			delete(t.accounts, k)
		}
		a.mu.Unlock()
	}
}

// idle reports whether all that was taken has come back.
func (b *bucket) idle(now time.Time) bool {
	return b.used <= 0 || now.Sub(b.at).Seconds()*b.rate >= b.used
}

func (t *Table) refused(what string) {
	t.count.Lock()
	t.count.refused[what]++
	t.count.Unlock()
}

// Reserve claims the tokens of the request: those of its prompt, which must fit,
// and as many of the answer as there are at most in a minute's worth. A refusal
// leaves the grant as it was.
func (g *Grant) Reserve(prompt, output int) (Usage, Refusal) {
	if g.a == nil {
		return Usage{}, Refusal{}
	}
	a, l := g.a, &g.limits
	now := g.t.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.Tokens <= 0 {
		return a.usage(l), Refusal{}
	}
	a.tokens.fill(l.Tokens, now)
	if prompt > l.Tokens {
		g.t.refused(Tokens)
		return a.usage(l), Refusal{What: Tokens, Limit: l.Tokens, Never: true}
	}
	n := min(prompt+max(0, output), l.Tokens)
	if w := a.tokens.wait(n, l.Tokens); w > 0 {
		g.t.refused(Tokens)
		return a.usage(l), Refusal{What: Tokens, Limit: l.Tokens, After: w}
	}
	a.tokens.used += float64(n)
	g.reserved += n
	return a.usage(l), Refusal{}
}

// Settle ends the request. used is the tokens it took; below 0 they are not
// known, and what was reserved counts.
func (g *Grant) Settle(used int) {
	if used < 0 {
		used = g.reserved
	}
	g.end(0, used-g.reserved)
}

// Cancel ends the request as if it had not come.
func (g *Grant) Cancel() { g.end(1, -g.reserved) }

// end gives back requests and adds tokens, which may be below 0.
func (g *Grant) end(requests, tokens int) {
	a := g.a
	if a == nil {
		return
	}
	now := g.t.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inflight--
	if g.limits.Requests > 0 && requests > 0 {
		a.requests.refill(now)
		a.requests.used = max(0, a.requests.used-float64(requests))
	}
	if g.limits.Tokens > 0 {
		a.tokens.refill(now)
		a.tokens.used = max(0, a.tokens.used+float64(tokens))
	}
	*g = Grant{}
}

// refill is fill without another limit.
func (b *bucket) refill(now time.Time) { b.fill(int(b.rate*60+0.5), now) }

// Stats returns the counts.
func (t *Table) Stats() Stats {
	t.mu.RLock()
	s := Stats{Accounts: len(t.accounts), Refused: map[string]uint64{}}
	t.mu.RUnlock()
	t.count.Lock()
	defer t.count.Unlock()
	s.Shared = t.count.shared
	for _, w := range []string{Concurrency, Requests, Tokens} {
		s.Refused[w] = t.count.refused[w]
	}
	return s
}
