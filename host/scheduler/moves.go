package scheduler

// Rule names what can move a request away from the endpoint that its scores prefer.
type Rule uint8

const (
	RuleHold      Rule = iota // a conversation stays where its history is
	RuleJoin                  // a shared prefix gets a further holder
	RuleSpread                // conversations begin where fewer have begun
	RuleEnvelope              // the load is above the envelope
	RuleShare                 // one tenant has most of the endpoint's work
	RuleCap                   // the endpoint is at its cap of requests
	RuleSlowStart             // the endpoint came back into service
	RuleProbe                 // another request probes the endpoint
	RulePin                   // policy keeps the session on its endpoint
	RuleSession               // the prompt is not known: the session stays
	RulePicker                // the profile's picker chose
	numRules
)

var ruleNames = [numRules]string{
	RuleHold: "hold", RuleJoin: "join", RuleSpread: "spread", RuleEnvelope: "envelope", RuleShare: "share",
	RuleCap: "cap", RuleSlowStart: "slow_start", RuleProbe: "probe", RulePin: "pin", RuleSession: "session",
	RulePicker: "picker",
}

// String returns the name in explain and metrics.
func (r Rule) String() string { return ruleNames[min(r, numRules)%numRules] }

// ruleOf returns the rule that passes a candidate over for a reason.
func ruleOf(why reason) Rule {
	switch why {
	case reasonShare:
		return RuleShare
	case reasonCap:
		return RuleCap
	case reasonRamp:
		return RuleSlowStart
	case reasonProbe:
		return RuleProbe
	}
	return RuleEnvelope
}

// maxMoves is how many moves a decision makes at most: past a candidate, to a further
// holder, and among equals.
const maxMoves = 3

// move is one change of the choice by a rule.
type move struct {
	rule     Rule
	from, to int32 // index in cands
}

// moves are the moves of a decision, in order.
type moves struct {
	list [maxMoves]move
	n    int
}

// moved records that a rule changed the choice from one column to another. A column of
// -1 is none.
func (d *decision) moved(rule Rule, from, to int) int {
	if from != to && from >= 0 && to >= 0 && d.moves.n < maxMoves {
		d.moves.list[d.moves.n] = move{rule, d.order[from], d.order[to]}
		d.moves.n++
	}
	return to
}

// cheapest returns the cheapest column that is not passed over, -1 if there is none,
// and records why it is not the cheapest of all.
func (d *decision) cheapest() int {
	all := -1
	for i := range d.b.N {
		if all < 0 || d.less(i, all) {
			all = i
		}
	}
	if all < 0 || d.over[all] == reasonNone {
		return all
	}
	return d.moved(ruleOf(d.over[all]), all, d.argmin())
}
