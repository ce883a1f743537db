package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scaling"
)

// openFleet makes what keeps endpoints and pools in step with the rules.
func (h *Host) openFleet() {
	h.fleet = fleet.New(fleet.Config{Store: h.store, Index: h.index, Assumed: h.assumed, Tiers: len(tierWeights),
		Parser: h.plugins.Parser, History: h.history.History, Forgotten: !h.history.Complete(),
		Revoked: func(url, pool, reason string) { h.note("isolation:revoke", url, nil, "pool", pool, "reason", reason) },
		Ejected: h.eject, Log: h.log})
	h.admission = &fleet.Admission{Policy: h.admissionPolicy}
	h.detector = fleet.NewDetector(h.log)
	h.discovery = fleet.NewDiscovery(fleet.DiscoveryConfig{Fleet: h.fleet, Admission: h.admission,
		Reader: h.plugins.EndpointReader, Failed: h.discoveryFailed, Now: h.now})
	h.scaling = scaling.New(scaling.Config{
		Store: h.store, Machines: h.fleet, Admission: h.admission,
		Sessions:  func() map[uint32]int { return h.state.Sessions() },
		QueueWait: h.queue.Oldest, Override: h.plugins.Sizer, Audit: h.auditScaling, Every: h.opt.ScaleEvery, Log: h.log,
		Now: h.now,
	})
}

// eject has requests without a byte leave an engine that its health check ejected.
func (h *Host) eject(addr string) {
	if n := h.proxy.Eject(addr); n > 0 {
		h.log.Info("the engine does not answer; its waiting requests may move", "endpoint", addr, "n", n)
	}
}

// contradicted logs that an engine counts the tokens of a model's prompts differently
// than the router, or no longer does.
func (h *Host) contradicted(model, url string, bad bool, differ, of int) {
	if bad {
		h.log.Warn("the engine counts other prompt tokens than the router; the model's prompts are approximate there: "+
			"compare tokenizer and chat template", "model", model, "endpoint", url, "differ", differ, "n", of)
		return
	}
	h.log.Info("the engine counts prompt tokens as the router does; the model's prompts are exact there",
		"model", model, "endpoint", url, "differ", differ, "n", of)
}

// admissionPolicy implements fleet.Admission by the rules in force.
func (h *Host) admissionPolicy() (asked bool, p *policy.Snapshot) {
	l := h.rules.Acquire()
	g := l.Value()
	l.Release()
	if g == nil {
		return false, nil
	}
	return g.Config.Policy.AdmitEndpoints, g.Policy()
}

func (h *Host) discoveryFailed(pool string, err error) {
	h.log.Warn("discovery failed, the previous endpoints stay", "pool", pool, "err", err)
	h.note("discovery:find", "pool/"+pool, err)
}

// auditScaling writes what the autoscaler did to the audit log.
func (h *Host) auditScaling(a autoscale.Action) {
	result := error(nil)
	if a.Verb == autoscale.VerbDriver || a.Verb == autoscale.VerbExpire || a.Verb == autoscale.VerbOverride {
		result = errors.New(a.Reason)
	}
	h.note("autoscale:"+a.Verb, "pool/"+a.Pool, result, "n", fmt.Sprint(a.N), "endpoints", strings.Join(a.IDs, " "),
		"reason", a.Reason, "key", a.Key)
}
