package scheduler

import (
	"math"
	"time"
)

// What an endpoint does with its requests says more than what it was sent. One that has
// begun none of them for longer than they take has more work than is known, or has
// stopped; one whose answers come many times more slowly than those of others is no
// equal choice, however little waits there.

const (
	// defaultRate is taken for a prefill rate in tokens/s before one is learned: an 8B
	// model on one H100 computes 34,000, a 70B model on four 13,000.
	defaultRate = 16384
	// stallGrace is how much longer than the prompts before it take a first token may
	// be late: one and a half times, and a tenth of a second for steps, scheduling
	// and the network. At rates that are not learned they are taken to take
	// stallUnknown times as long as at the default.
	stallGrace   = 1.5
	stallMargin  = 100 * time.Millisecond
	stallSteps   = 16 // further steps of decoding: where many answers are decoded, steps are long
	stallUnknown = 4
	// stallWeight is how much longer a wait is expected to last than it is late
	// already. 4: a stopped engine that is a quarter of a second late outweighs the
	// prefix of a conversation of 16,384 tokens.
	stallWeight = 4
)

// stallTokens returns the tokens that an endpoint's lack of progress counts as, beyond
// the outstanding ones. rate is its learned prefill rate, and step the time between two
// output tokens in milliseconds, 0 = not known.
func stallTokens(stalled time.Duration, outstanding, rate, step float32) float32 {
	expected := outstanding / defaultRate * stallUnknown
	if rate > 0 {
		expected = outstanding / rate * stallGrace
	} else {
		rate = defaultRate
	}
	late := float32((stalled - stallMargin).Seconds()) - expected - stallSteps*step/1e3
	return max(0, stallWeight*late*rate)
}

const (
	// slowDecode is how many times as long as on the fastest candidate an output token
	// must take before an endpoint counts as slow: below, load explains it.
	slowDecode = 2
	// answerWeight is the weight of a second in which the answer comes later beside
	// one in which it begins later. A tenth, as what has the best goodput in replay of the
	// cost in units of time.
	answerWeight = 0.1
	// slowMemory is the time in which the delay of an endpoint that answers nothing
	// halves, so that it gets another try.
	slowMemory = 30 * time.Second
	// unknownAnswer is taken for the tokens of an answer before any came.
	unknownAnswer = 128
)

// fillDelays sets the cost in tokens of answers that are decoded slowly, 0 for endpoints
// that are not slow or whose speed is not known.
func (d *decision) fillDelays() {
	delays := d.b.Delay
	clear(delays)
	fastest := float32(0)
	for _, l := range d.loads {
		if itl := l.SlowITLMillis(); itl > 0 && (fastest == 0 || itl < fastest) {
			fastest = itl
		}
	}
	if fastest == 0 {
		return
	}
	answer := d.meanAnswer
	if answer == 0 {
		answer = unknownAnswer
	}
	if limit := float32(d.maxTokens); limit > 0 {
		answer = min(answer, limit)
	}
	rate := meanRate(d.b.Rates)
	if rate == 0 {
		rate = defaultRate
	}
	for i, l := range d.loads {
		over := l.SlowITLMillis() - slowDecode*fastest
		if over <= 0 {
			continue
		}
		fade := math.Exp2(-float64(l.Idle(d.now)) / float64(slowMemory))
		delays[i] = answerWeight * over / 1e3 * answer * rate * float32(fade)
	}
}
