package quota

// Grant is a request's claim on an account. The zero Grant claims nothing. Its owner
// calls any number of Reserve, then one of Settle and Cancel. It is not safe for
// concurrent use.
type Grant struct {
	t        *Table
	a        *account
	limits   Limits
	reserved int // tokens
}

// Reserve claims the tokens of the request: those of its prompt, which must fit, and
// those of the answer, up to a minute's worth in all. A refusal leaves the grant
// unchanged.
func (g *Grant) Reserve(prompt, output int) (Usage, *Refusal) {
	if g.a == nil {
		return Usage{}, nil
	}
	a, l := g.a, &g.limits
	now := g.t.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.Tokens <= 0 {
		return a.usageLocked(l), nil
	}
	a.tokens.fill(l.Tokens, now)
	if prompt > l.Tokens {
		g.t.refused[Tokens].Add(1)
		return a.usageLocked(l), &Refusal{Budget: Tokens, Limit: l.Tokens, Never: true}
	}
	n := min(prompt+max(0, output), l.Tokens)
	if w := a.tokens.wait(n, l.Tokens); w > 0 {
		g.t.refused[Tokens].Add(1)
		return a.usageLocked(l), &Refusal{Budget: Tokens, Limit: l.Tokens, After: w}
	}
	a.tokens.used += float64(n)
	g.reserved += n
	return a.usageLocked(l), nil
}

// Settle ends the request. used is the tokens it took; if it is negative they are not
// known, and the reserved ones count.
func (g *Grant) Settle(used int) {
	if used < 0 {
		used = g.reserved
	}
	g.end(0, used-g.reserved)
}

// Cancel ends the request as if it had not been made.
func (g *Grant) Cancel() { g.end(1, -g.reserved) }

// end gives back requests and adds tokens, which may be negative.
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
