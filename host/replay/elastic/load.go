package elastic

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
)

// Swing changes when the conversations of an open load begin: speed times as
// fast, with a rate that varies by ±depth over each period. It changes l in place.
func Swing(l []replay.Conversation, speed, depth float64, period time.Duration) {
	at, last := 0.0, 0.0
	for i := range l {
		d := l[i].Start/speed - last
		last = l[i].Start / speed
		at += d / (1 + depth*math.Sin(2*math.Pi*at/period.Seconds()))
		l[i].Start = at
	}
}

// Poisson lets the conversations begin at random, rate a second. It changes l
// in place.
func Poisson(l []replay.Conversation, rate float64, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	at := 0.0
	for i := range l {
		at += r.ExpFloat64() / rate
		l[i].Start = at
	}
}
