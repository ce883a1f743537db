package scheduler

// Kind is what kind of placement a decision was.
type Kind uint8

const (
	KindUnset    Kind = iota // nothing was placed
	KindWarm                 // where the longest match is
	KindSpill                // elsewhere, although a match was known
	KindCold                 // no endpoint held a block
	KindFallback             // the prompt is not known; by session or load
	KindHoldout              // control arm: least work without locality
	numKinds
)

var kindNames = [numKinds]string{KindUnset: "unset", KindWarm: "warm", KindSpill: "spill", KindCold: "cold", KindFallback: "fallback", KindHoldout: "holdout"}

// String returns the word used in metrics and explain.
func (k Kind) String() string { return kindNames[min(k, numKinds)%numKinds] }

// arm is the part of the traffic that a request belongs to: that which is placed
// by locality, or the sample that gains are measured against.
type arm uint8

const (
	armLocality arm = iota
	armHoldout
	numArms
)

var armNames = [numArms]string{armLocality: "locality", armHoldout: "holdout"}

// String returns explain's word.
func (a arm) String() string { return armNames[a] }

// source says whose scores a decision went by.
type source uint8

const (
	sourceProfile source = iota // the scorers of the profile
	sourceBuiltin               // the built-in, since no scorer of the profile counts
)

// mode is what a decision is made for.
type mode uint8

const (
	modePlace  mode = iota // to place a request
	modeDryRun             // to say what would be decided; nothing is charged, counted or kept
)
