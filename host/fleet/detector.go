package fleet

import (
	"log/slog"
	"sync"

	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// Detector counts outcomes that are signs of one tenant reading another's cache, or
// trying to: cached tokens that are not explained, many answers of one token, a
// tenant whose prompts suddenly miss. All methods may be called concurrently.
type Detector struct {
	log *slog.Logger

	mu          sync.Mutex // guards the fields below
	tenants     map[string]*tenantRecord
	other       tenantRecord // of tenants beyond maxTenants
	spikes      uint64
	unexplained uint64 // tokens reported as cached that their namespace cannot hold
	unproven    uint64 // the same, where the router's records are incomplete
}

// maxTenants bounds the tenants that are counted for each.
const maxTenants = 4096

// A tenant's misses spike when the share of uncached tokens of about its last
// twenty requests is spikeRise above that of its last five hundred: its prompts
// changed, its cache was lost, or it guesses the continuations of prompts.
const (
	spikeFast  = 1.0 / 20
	spikeSlow  = 1.0 / 500
	spikeRise  = 0.4
	spikeAfter = 100 // requests, before which there is no usual share
)

// tenantRecord counts the requests of one tenant.
type tenantRecord struct {
	requests, single uint64 // single: of them, answers of at most one token
	prompt, cached   uint64 // tokens
	fast, slow       float64
	measured         int
	spiked           bool
}

// NewDetector returns a detector without records.
func NewDetector(log *slog.Logger) *Detector {
	return &Detector{log: log, tenants: map[string]*tenantRecord{}}
}

// Observe counts one outcome. proof is what [Fleet.Observe] reported of it.
func (d *Detector) Observe(o *scheduler.Observation, proof bool) {
	if o.Outcome.Status != 200 || !o.Outcome.HasUsage {
		return
	}
	d.mu.Lock()
	t := d.tenants[o.Tenant]
	if t == nil {
		if t = &d.other; len(d.tenants) < maxTenants {
			t = new(tenantRecord)
			d.tenants[o.Tenant] = t
		}
	}
	t.requests++
	if o.Outcome.OutputTokens <= 1 {
		t.single++
	}
	spike := false
	if o.Outcome.HasCached && o.Outcome.PromptTokens > 0 {
		t.prompt += uint64(o.Outcome.PromptTokens)
		t.cached += uint64(max(0, o.Outcome.CachedTokens))
		if proof {
			d.unexplained += uint64(o.Unexplained)
		} else {
			d.unproven += uint64(o.Unexplained)
		}
		if spike = t != &d.other && t.missed(1-float64(o.Outcome.CachedTokens)/float64(o.Outcome.PromptTokens)); spike {
			d.spikes++
		}
	}
	d.mu.Unlock()
	if spike {
		d.log.Warn("a tenant's prompts miss the cache far more than usual", "tenant", o.Tenant)
	}
}

// missed records the share of a prompt that was not cached and reports whether a
// spike begins.
func (t *tenantRecord) missed(share float64) bool {
	if t.measured++; t.measured == 1 {
		t.fast, t.slow = share, share
	}
	t.fast += spikeFast * (share - t.fast)
	t.slow += spikeSlow * (share - t.slow)
	rise := t.fast - t.slow
	switch {
	case t.measured < spikeAfter:
	case !t.spiked && rise > spikeRise:
		t.spiked = true
		return true
	case t.spiked && rise < spikeRise/2:
		t.spiked = false
	}
	return false
}

// Collect emits the sums, and with tenants also those of each tenant.
func (d *Detector) Collect(e *telemetry.Emitter, tenants bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.other
	for _, t := range d.tenants {
		all.single += t.single
	}
	e.Emit(metric.SingleTokenAnswers, float64(all.single))
	e.Emit(metric.TenantMissSpikes, float64(d.spikes))
	e.Emit(metric.UnexplainedCachedTokens, float64(d.unexplained))
	e.Emit(metric.UnprovenCachedTokens, float64(d.unproven))
	if !tenants {
		return
	}
	for name, t := range d.tenants {
		e.Emit(metric.TenantRequests, float64(t.requests), name)
		e.Emit(metric.TenantSingleTokenAnswers, float64(t.single), name)
		e.Emit(metric.TenantPromptTokens, float64(t.prompt), name)
		e.Emit(metric.TenantCachedTokens, float64(t.cached), name)
	}
}
