// Package quota counts what tenants use against their limits: requests in flight,
// and requests and tokens per minute. The limits come with each request; the counts
// outlive any change of the limits, so that a reload gives no tenant a fresh minute.
//
// A budget per minute is a bucket that holds a minute's worth and refills evenly.
// Tokens are reserved when a request is placed, for its prompt and the answer it may
// get, and settled when the engine has reported them.
package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

// Key identifies an account: requests of one tenant and rate class share it.
type Key struct{ Tenant, Class string }

// Limits of one account; 0 = none.
type Limits struct {
	Concurrency int // requests in flight
	Requests    int // per minute
	Tokens      int // per minute, prompt and output
}

// none reports whether nothing is limited.
func (l *Limits) none() bool { return l.Concurrency <= 0 && l.Requests <= 0 && l.Tokens <= 0 }

// Budget is what a limit is of.
type Budget uint8

const (
	BudgetUnset Budget = iota
	Concurrency        // requests in flight
	Requests           // requests per minute
	Tokens             // tokens per minute
	NumBudgets
)

var budgetNames = [NumBudgets]string{
	BudgetUnset: "unset", Concurrency: "concurrency", Requests: "requests", Tokens: "tokens",
}

// String returns the name of the budget in metrics and messages.
func (b Budget) String() string {
	if b >= NumBudgets {
		b = BudgetUnset
	}
	return budgetNames[b]
}

// Refusal reports which limit a request exceeds.
type Refusal struct {
	Budget Budget
	Limit  int           // that is exceeded
	After  time.Duration // when a retry may succeed; 0 with Never
	Never  bool          // the request alone needs more than a minute's worth
}

// Remaining is what is left of one budget.
type Remaining struct {
	Limit int           // per minute, 0 = none
	Left  int           // of it, ≥ 0
	Reset time.Duration // until all of it is available again
}

// Usage is what is left of an account's budgets, for the client.
type Usage struct{ Requests, Tokens Remaining }

// maxAccounts bounds the accounts that are kept apart. Tenants come from issued
// keys and classes from the policy, so a site has far fewer; each takes about 200
// bytes.
const maxAccounts = 1 << 16

// Stats counts since the table was made.
type Stats struct {
	Accounts int               // in use
	Refused  map[string]uint64 // by name of the Budget
	Shared   uint64            // requests counted in the account that all tenants beyond maxAccounts share
}

// Table holds the accounts. All methods may be called concurrently.
type Table struct {
	now func() time.Time

	mu       sync.RWMutex // guards the fields below; taken before account.mu
	accounts map[Key]*account
	max      int
	swept    time.Time

	overflow account
	refused  [NumBudgets]atomic.Uint64
	shared   atomic.Uint64
}

// New returns an empty table. now is the clock, nil = time.Now.
func New(now func() time.Time) *Table {
	if now == nil {
		now = time.Now
	}
	return &Table{now: now, accounts: map[Key]*account{}, max: maxAccounts}
}

// account is what one tenant uses in one rate class.
type account struct {
	mu       sync.Mutex // guards the fields below
	gone     bool       // swept: it must not be used
	inflight int
	requests bucket
	tokens   bucket
}

// Begin claims one request. It returns a refusal, and claims nothing, if the limit
// of requests in flight or per minute is reached, or no tokens are left.
func (t *Table) Begin(k Key, l Limits) (Grant, Usage, *Refusal) {
	if l.none() {
		return Grant{}, Usage{}, nil
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
	if r := a.refusalLocked(&l); r != nil {
		t.refused[r.Budget].Add(1)
		return Grant{}, a.usageLocked(&l), r
	}
	a.inflight++
	if l.Requests > 0 {
		a.requests.used++
	}
	return Grant{t: t, a: a, limits: l}, a.usageLocked(&l), nil
}

// retryConcurrency is the Retry-After where all places are taken: it is not known
// when a stream ends.
const retryConcurrency = time.Second

// refusalLocked returns which limit one more request would exceed, nil = none.
func (a *account) refusalLocked(l *Limits) *Refusal {
	if l.Concurrency > 0 && a.inflight >= l.Concurrency {
		return &Refusal{Budget: Concurrency, Limit: l.Concurrency, After: retryConcurrency}
	}
	if l.Requests > 0 {
		if w := a.requests.wait(1, l.Requests); w > 0 {
			return &Refusal{Budget: Requests, Limit: l.Requests, After: w}
		}
	}
	if l.Tokens > 0 {
		if w := a.tokens.wait(1, l.Tokens); w > 0 {
			return &Refusal{Budget: Tokens, Limit: l.Tokens, After: w}
		}
	}
	return nil
}

func (a *account) usageLocked(l *Limits) Usage {
	return Usage{Requests: a.requests.remaining(l.Requests), Tokens: a.tokens.remaining(l.Tokens)}
}

// account returns the account of k, locked.
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

// open makes an account. If there are too many, unused ones are removed; if there
// are none of these, the request counts in the shared account.
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
		t.shared.Add(1)
		return &t.overflow
	}
	a := new(account)
	t.accounts[k] = a
	return a
}

// sweepLocked removes the accounts of which nothing is used.
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

// Stats returns the counts.
func (t *Table) Stats() Stats {
	t.mu.RLock()
	s := Stats{Accounts: len(t.accounts), Refused: map[string]uint64{}, Shared: t.shared.Load()}
	t.mu.RUnlock()
	for b := BudgetUnset + 1; b < NumBudgets; b++ {
		s.Refused[b.String()] = t.refused[b].Load()
	}
	return s
}
