package endpoint

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load counts the requests that this router has in flight on an endpoint, and holds
// what it learned from earlier ones and the endpoint's breaker. It belongs to one
// epoch. It is local to the router and so has no polling lag. All methods may be
// called concurrently.
type Load struct {
	inflight    atomic.Int64  // requests charged
	pending     atomic.Int64  // of these, those whose prompt is not prefilled
	outstanding atomic.Int64  // uncached prompt tokens not yet prefilled
	kvActive    atomic.Int64  // tokens of the requests in flight
	rate        atomic.Uint32 // learned prefill rate, float32 bits, tokens/s; 0 = too few samples
	itl         atomic.Uint32 // learned time between two output tokens, float32 bits, ms; 0 = too few samples
	recentITL   atomic.Uint32 // as itl, of the last few requests; 0 before the first
	since       atomic.Int64  // Unix nanoseconds since when requests wait for their first token, 0 = none does
	progress    atomic.Int64  // Unix nanoseconds of the last first token or end of an answer, 0 = none yet
	gaveUp      atomic.Int64  // Unix nanoseconds when a request ended without a first token; carried is of then
	carried     atomic.Int64  // nanoseconds for which requests that gave up had waited without progress
	ready       atomic.Int64  // Unix nanoseconds since when it takes requests, 0 = it does not
	gone        atomic.Bool   // removed from the store
	charges     atomic.Uint64 // requests ever charged
	charged     atomic.Uint64 // uncached prompt tokens ever charged
	errors      errorRate
	ages        ages

	breaker breaker

	mu      sync.Mutex       // guards the fields below
	tenants map[string]int64 // outstanding uncached tokens by tenant; no zero entries
	recent  shares
	samples [rateSamples]float32
	taken   int                  // samples ever taken
	gaps    [rateSamples]float32 // ms between two output tokens, by request
	gapped  int                  // gaps ever taken
}

func newLoad() *Load { return &Load{tenants: make(map[string]int64, 4)} }

// Inflight returns the requests charged and not released.
func (l *Load) Inflight() int64 { return l.inflight.Load() }

// Outstanding returns the uncached prompt tokens dispatched whose first output
// token has not come.
func (l *Load) Outstanding() int64 { return l.outstanding.Load() }

// KVActive returns the tokens of the requests in flight: prompts and, as far
// as charged, expected output.
func (l *Load) KVActive() int64 { return l.kvActive.Load() }

// Oldest returns the age of the oldest request in flight, 0 if there is none. It is
// too great by at most the time since the call before, and too small for requests
// that began before the first call.
func (l *Load) Oldest(now time.Time) time.Duration { return l.ages.oldest(now) }

// Charged returns the requests, and their uncached prompt tokens, that were ever
// charged: the work that was offered, whatever became of it.
func (l *Load) Charged() (requests, uncached uint64) { return l.charges.Load(), l.charged.Load() }

// Gone reports whether the endpoint was removed.
func (l *Load) Gone() bool { return l.gone.Load() }

// TenantOutstanding returns the part of Outstanding that is one tenant's.
func (l *Load) TenantOutstanding(tenant string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tenants[tenant]
}

// Charge is one request's claim on a Load. The zero Charge claims nothing. A
// Charge is not safe for concurrent use; its owner serializes.
type Charge struct {
	load     *Load
	tenant   string
	uncached int64 // outstanding tokens still claimed
	waits    bool  // the prompt is not prefilled
	kv       int64
	period   uint32 // of ages
}

// Charge claims a request with uncached prompt tokens to compute and kv tokens
// of memory, both ≥ 0. The claim ends with Charge.Release.
func (l *Load) Charge(tenant string, uncached, kv int64) Charge {
	l.inflight.Add(1)
	l.pending.Add(1)
	l.outstanding.Add(uncached)
	l.kvActive.Add(kv)
	l.charges.Add(1)
	l.charged.Add(uint64(uncached))
	l.tenant(tenant, uncached)
	return Charge{load: l, tenant: tenant, uncached: uncached, waits: true, kv: kv,
		period: l.ages.begin()}
}

func (l *Load) tenant(name string, delta int64) {
	if delta == 0 {
		return
	}
	l.mu.Lock()
	if v := l.tenants[name] + delta; v != 0 {
		l.tenants[name] = v
	} else {
		delete(l.tenants, name)
	}
	l.mu.Unlock()
}

// ReleaseWork gives back the outstanding tokens: the prefill is over. Further
// calls do nothing.
func (c *Charge) ReleaseWork() {
	if c.load == nil || !c.waits {
		return
	}
	if c.load.pending.Add(-1) == 0 {
		c.load.since.Store(0)
	}
	c.load.outstanding.Add(-c.uncached)
	c.load.tenant(c.tenant, -c.uncached)
	c.uncached, c.waits = 0, false
}

// Release gives back all that is claimed. Further calls do nothing.
func (c *Charge) Release() {
	if c.load == nil {
		return
	}
	c.ReleaseWork()
	c.load.kvActive.Add(-c.kv)
	c.load.inflight.Add(-1)
	c.load.ages.end(c.period)
	*c = Charge{}
}

// The learned prefill rate is the 90th percentile of the last 64 samples of
// work/elapsed, as in SMetric (vllm-project/router, smetric.rs): elapsed has
// queueing in it, so the better samples are the ones that show the hardware.
const (
	rateSamples    = 64
	rateMinSamples = 8
	// rateMinWork keeps samples out that measure latency, not throughput: an
	// engine's step costs as much for one token as for 140 to 270 (A100, H100),
	// so from about four times that on the tokens are what takes the time. At
	// 256 the rates of equal engines differed by what prompts they had had.
	rateMinWork = 1024
)

// ObservePrefill feeds the learned rate: work uncached tokens took elapsed
// from dispatch to the first token. Small or timeless samples are ignored.
func (l *Load) ObservePrefill(work int64, elapsed time.Duration) {
	if work < rateMinWork || elapsed <= 0 {
		return
	}
	l.mu.Lock()
	l.samples[l.taken%rateSamples] = float32(float64(work) / elapsed.Seconds())
	l.taken++
	n := min(l.taken, rateSamples)
	var sorted [rateSamples]float32
	copy(sorted[:], l.samples[:n])
	l.mu.Unlock()
	if n < rateMinSamples {
		return
	}
	slices.Sort(sorted[:n])
	// The lower nearest rank: one lucky sample among eight does not count.
	l.rate.Store(math.Float32bits(sorted[(n-1)*9/10]))
}

// ObserveDecode feeds the learned time between output tokens: tokens of output, at
// least two, took elapsed from the first to the last.
func (l *Load) ObserveDecode(tokens int, elapsed time.Duration) {
	if tokens < 2 || elapsed <= 0 {
		return
	}
	l.mu.Lock()
	l.gaps[l.gapped%rateSamples] = float32(elapsed.Seconds() * 1e3 / float64(tokens-1))
	l.gapped++
	n := min(l.gapped, rateSamples)
	last := l.gaps[(l.gapped-1)%rateSamples]
	if was := math.Float32frombits(l.recentITL.Load()); was > 0 {
		last = was + recentShare*(last-was)
	}
	l.recentITL.Store(math.Float32bits(last))
	var sorted [rateSamples]float32
	copy(sorted[:], l.gaps[:n])
	l.mu.Unlock()
	if n < rateMinSamples {
		return
	}
	slices.Sort(sorted[:n])
	l.itl.Store(math.Float32bits(sorted[n/2]))
}

// ITLMillis returns the median time between two output tokens over the last 64
// requests in milliseconds, 0 before 8 of them.
func (l *Load) ITLMillis() float32 { return math.Float32frombits(l.itl.Load()) }

// recentShare makes a moving mean that of the last four values.
const recentShare = 0.25

// SlowITLMillis returns the time between two output tokens in milliseconds by which an
// endpoint can be called slow: that of the last 64 requests or of the last few,
// whichever is less, so that one slow answer makes no endpoint slow and a few fast ones
// show that it has recovered. 0 before 8 requests.
func (l *Load) SlowITLMillis() float32 {
	return min(l.ITLMillis(), math.Float32frombits(l.recentITL.Load()))
}

// Waits records that a request waits for its first token at now.
func (l *Load) Waits(now time.Time) { l.since.CompareAndSwap(0, now.UnixNano()) }

// Progressed records that a first token came, or an answer ended well, at now.
func (l *Load) Progressed(now time.Time) {
	l.progress.Store(now.UnixNano())
	l.carried.Store(0)
}

// GaveUp records that a request ended at now without a first token. Call it before its
// charge is released: what it has waited for still counts for a while.
func (l *Load) GaveUp(now time.Time) {
	l.carried.Store(int64(l.Stalled(now)))
	l.gaveUp.Store(now.UnixNano())
}

// carriedHalf is the time in which the wait of requests that gave up counts half.
const carriedHalf = 5 * time.Second

// Idle returns the time since the last first token or end of an answer, a very long
// time before the first.
func (l *Load) Idle(now time.Time) time.Duration {
	return time.Duration(max(0, now.UnixNano()-l.progress.Load()))
}

// Stalled returns how long requests have waited for their first token while none came
// and no answer ended, including what requests that gave up have waited.
func (l *Load) Stalled(now time.Time) time.Duration {
	at := now.UnixNano()
	var stalled int64
	if since := l.since.Load(); since != 0 {
		stalled = max(0, at-max(since, l.progress.Load(), l.gaveUp.Load()))
	}
	if carried := l.carried.Load(); carried != 0 {
		age := float64(max(0, at-l.gaveUp.Load())) / float64(carriedHalf)
		stalled += int64(float64(carried) * math.Exp2(-age))
	}
	return time.Duration(stalled)
}

// ReadyFor returns how long an endpoint has taken requests without a break at now,
// 0 if it takes none.
func (l *Load) ReadyFor(now time.Time) time.Duration {
	at := l.ready.Load()
	if at == 0 {
		return 0
	}
	return time.Duration(max(0, now.UnixNano()-at))
}

// ErrorRate returns the share of failed requests at now, in [0, 1].
func (l *Load) ErrorRate(now time.Time) float32 { return l.errors.at(now) }

// PrefillRate returns the learned rate in tokens per second, 0 before 8 samples.
func (l *Load) PrefillRate() float32 { return math.Float32frombits(l.rate.Load()) }
