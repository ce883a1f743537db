package backend

import (
	"math"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents"
)

// Trust measures how reliable the index is about one endpoint:
//
//	trust = ceiling × accuracy × stream × fresh            in [0, 1]
//
// ceiling: 1 once the engine's reported cached tokens are compared with the
// prediction; [ceilLive] with its events alone, [ceilPredicted] while its cache is
// only modelled. An endpoint that reports nothing is unverified, not wrong: an
// absent figure is not zero.
//
// accuracy: moving average (weight [gain] each) of the agreement of predictions
// with what the engine reports: 1 within one block, else 1 − |p − r|/max(p, r),
// of which a prediction that was too low loses only a quarter: the predicted blocks
// are then there, and missing ones cost a warm placement, not a wrong one. Requests
// with nothing predicted and nothing reported do not count. Where nothing is
// reported, the engine's counters of prefix cache hits are compared instead, over
// windows, and only for predictions that were too high.
//
// stream: falls with each error of the event stream, by the factors below, and
// recovers half of the difference to 1 per [streamHalfLife] without errors and a
// tenth per agreeing request.
//
// fresh: halves every [deadHalfLife] that the event stream has been down, after
// [deadGrace].
//
// All methods may be called concurrently.
type Trust struct {
	mu sync.Mutex // guards all

	accuracy float64
	stream   float64
	at       time.Time // stream is as of then

	live      bool      // the endpoint's events are in use
	downSince time.Time // zero: connected
	block     int       // tokens of one block

	reports, silent uint64 // outcomes with and without reported tokens
	predicted       uint64 // sums over reports, tokens
	reported        uint64
	over, under     uint64 // sums of the differences, tokens

	window window
}

// window collects outcomes without reported tokens until the engine's counters
// can be compared with them.
type window struct {
	predicted float64
	hits      float64 // engine's counter at the start
	open      bool
	since     time.Time
}

const (
	// ceilLive: events come from the engine itself, but a loss at the end of a stream
	// is noticed late; with a tenth less a verified endpoint wins between equals.
	ceilLive = 0.9
	// ceilPredicted: evictions are not known, only modelled.
	ceilPredicted = 0.8

	// gain of one outcome. A wrong engine is at half trust after 11 requests and at a
	// tenth after 36; one outlier in a good run costs 6 %.
	gain = 1.0 / 16
	// windowGain of one comparison of counters, which covers many requests.
	windowGain = 1.0 / 4
	// windowTokens and windowTime: a window is compared when both have passed, so
	// that requests still running at its edges weigh little.
	windowTokens = 4096
	windowTime   = 10 * time.Second

	fallRestart = 0.8 // the blocks were cleared, so what is indexed is right; but it may restart again
	fallGap     = 0.5 // messages were lost: others may be lost without a gap
	fallLost    = 0.9 // earlier history is missing; nothing indexed is wrong
	fallFailed  = 0.98
	fallOrphan  = 0.98

	streamHalfLife = time.Minute
	deadGrace      = 5 * time.Second // a reconnect takes less
	deadHalfLife   = 30 * time.Second
)

func newTrust(now time.Time) *Trust { return &Trust{accuracy: 1, stream: 1, at: now, block: 16} }

// Value returns the trust at a time.
func (t *Trust) Value(now time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.accuracy
	switch {
	case t.reports > 0:
	case t.live:
		v *= ceilLive
	default:
		v *= ceilPredicted
	}
	if !t.live {
		return v
	}
	t.recoverLocked(now)
	v *= t.stream
	if down := now.Sub(t.downSince) - deadGrace; !t.downSince.IsZero() && down > 0 {
		v *= math.Exp2(-down.Seconds() / deadHalfLife.Seconds())
	}
	return v
}

// Unverified reports whether requests have ended here and none has reported how
// many of its tokens were cached.
func (t *Trust) Unverified() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reports == 0 && t.silent > 0
}

// TrustStats are the parts of a trust.
type TrustStats struct {
	Value, Accuracy, Stream float64
	Unverified              bool
	Reports                 uint64 // outcomes that reported their cached tokens
	Silent                  uint64 // outcomes that did not
	PredictedTokens         uint64 // sums over Reports
	ReportedTokens          uint64
	OverTokens, UnderTokens uint64 // sums of predicted − reported where positive, where negative
}

// Stats returns the parts of the trust at a time.
func (t *Trust) Stats(now time.Time) TrustStats {
	v := t.Value(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	return TrustStats{Value: v, Accuracy: t.accuracy, Stream: t.stream, Unverified: t.reports == 0 && t.silent > 0,
		Reports: t.reports, Silent: t.silent, PredictedTokens: t.predicted, ReportedTokens: t.reported,
		OverTokens: t.over, UnderTokens: t.under}
}

// Observe takes one outcome: tokens that were predicted to be cached, and tokens
// that the engine reported as cached.
func (t *Trust) Observe(predicted, reported int, now time.Time) {
	if predicted < 0 || reported < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports++
	t.predicted += uint64(predicted)
	t.reported += uint64(reported)
	t.over += uint64(max(0, predicted-reported))
	t.under += uint64(max(0, reported-predicted))
	high := max(predicted, reported)
	if high == 0 {
		return
	}
	agreement := 1.0
	if d := predicted - reported; d > t.block {
		agreement = 1 - float64(d)/float64(high)
	} else if -d > t.block {
		agreement = 1 + float64(d)/float64(high)/4
	}
	t.accuracy += (agreement - t.accuracy) * gain
	if agreement > 0.9 {
		t.recoverLocked(now)
		t.stream += (1 - t.stream) / 10
	}
}

// ObserveEarlier takes one outcome of an engine that may hold blocks the router has not
// seen, and reported more than was predicted: that is counted and says nothing about the
// index.
func (t *Trust) ObserveEarlier(predicted, reported int) {
	if predicted < 0 || reported < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reports++
	t.predicted += uint64(predicted)
	t.reported += uint64(reported)
	t.under += uint64(max(0, reported-predicted))
}

// ObserveSilent takes one outcome whose engine reported nothing.
func (t *Trust) ObserveSilent(predicted int) {
	if predicted < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silent++
	if t.window.open {
		t.window.predicted += float64(predicted)
	}
}

// counters compares what was predicted for outcomes that reported nothing with
// the engine's own count of tokens found in its prefix cache. Other clients of
// the engine raise the count, so that only too few hits show an error.
func (t *Trust) counters(hits float64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.window
	if t.reports > 0 {
		*w = window{}
		return
	}
	if !w.open || hits < w.hits {
		*w = window{hits: hits, open: true, since: now}
		return
	}
	if w.predicted < windowTokens || now.Sub(w.since) < windowTime {
		return
	}
	found := hits - w.hits
	agreement := math.Min(1, (found+float64(t.block))/w.predicted)
	t.accuracy += (agreement - t.accuracy) * windowGain
	*w = window{hits: hits, open: true, since: now}
}

// blockTokens returns the tokens of one block.
func (t *Trust) blockTokens() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.block
}

// use sets whether the endpoint's events are in use, and its block size.
func (t *Trust) use(live bool, block int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = live
	if block > 0 {
		t.block = block
	}
}

// down sets since when the event stream has been down, zero if it is not.
func (t *Trust) down(since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.downSince = since
}

func (t *Trust) reset(reason string, now time.Time) {
	switch reason {
	case kvevents.ReasonGap:
		t.fall(fallGap, 1, now)
	case kvevents.ReasonRestart:
		t.fall(fallRestart, 1, now)
	}
}

func (t *Trust) restart(now time.Time)         { t.fall(fallRestart, 1, now) }
func (t *Trust) lost(now time.Time)            { t.fall(fallLost, 1, now) }
func (t *Trust) failed(n int, now time.Time)   { t.fall(fallFailed, n, now) }
func (t *Trust) orphaned(n int, now time.Time) { t.fall(fallOrphan, n, now) }

// fall lowers stream by a factor, n times (at most eight: one bad batch is one
// event of a stream).
func (t *Trust) fall(factor float64, n int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recoverLocked(now)
	t.stream *= math.Pow(factor, float64(min(n, 8)))
}

// recoverLocked brings stream up to date.
func (t *Trust) recoverLocked(now time.Time) {
	if dt := now.Sub(t.at); dt > 0 {
		t.stream = 1 - (1-t.stream)*math.Exp2(-dt.Seconds()/streamHalfLife.Seconds())
		t.at = now
	}
}
