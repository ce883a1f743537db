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

var kindNames = [numKinds]string{
	KindUnset: "unset", KindWarm: "warm", KindSpill: "spill", KindCold: "cold", KindFallback: "fallback",
	KindHoldout: "holdout",
}

// String returns the name in metrics and explain.
func (k Kind) String() string { return kindNames[min(k, numKinds)%numKinds] }

// arm is the part of the traffic that a request belongs to: the one placed by
// locality, or the sample that its gains are measured against.
type arm uint8

const (
	armLocality arm = iota
	armHoldout
	numArms
)

var armNames = [numArms]string{armLocality: "locality", armHoldout: "holdout"}

// String returns the name in explain.
func (a arm) String() string { return armNames[a] }

// source reports which scorers a decision was made by.
type source uint8

const (
	sourceProfile source = iota // the scorers of the profile
	sourceBuiltin               // the built-in, because every scorer of the profile failed or abstained
)

// mode is the purpose of a decision.
type mode uint8

const (
	modePlace  mode = iota // to place a request
	modeDryRun             // to explain what would be decided; nothing is charged, counted or recorded
)
