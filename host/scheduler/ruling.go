package scheduler

import (
	"math"
	"net/http"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/quota"
)

// ruling is the policy's decision about a request and what follows from it before
// any endpoint is considered.
type ruling struct {
	in      policy.Input
	dec     *policy.Decision // immutable
	model   *model           // the one that policy decided
	prof    *profile
	profWhy string // why it is this one, for explain
	salt    string // of the namespace, or of this request alone
	arm     arm
	grant   quota.Grant // claim on the tenant's budgets
}

// private reports whether the request shares its cache with no other.
func (u *ruling) private() bool { return u.dec != nil && u.dec.Scope == policy.ScopeNone }

// ownUser reports whether the request shares its cache with no other user of the
// tenant.
func (u *ruling) ownUser() bool { return u.private() || u.dec.Scope == policy.ScopeUser }

// decide resolves the model and evaluates the policy.
func (d *decision) decide() *DeniedError {
	r, s := d.r, d.s
	d.model = s.models[r.API.Model]
	if d.model == nil {
		return errModel(shorten(r.API.Model))
	}
	d.in = policy.Input{Principal: r.Principal, Operation: r.API.Op.String(), Model: d.model.name, Stream: r.API.Stream,
		Priority: r.Priority, SizeClass: sizeClass(len(r.API.Body)), Labels: inputLabels(r), Trace: &r.Trace}
	s.fillRouter(&d.in, d.now)
	dec, err := s.cfg.Policy.Decide(&d.in)
	r.Asked, r.Decision = d.in, dec
	if err != nil || dec == nil {
		return errPolicy()
	}
	d.dec = dec
	if !dec.Allow {
		status := dec.Status
		if status < 400 {
			status = http.StatusForbidden
		}
		return &DeniedError{Status: status, Code: llmapi.CodePolicyDenied, Message: "Denied by policy: " + dec.Reason + "."}
	}
	if dec.Model != "" && dec.Model != d.model.name {
		if d.model = s.models[dec.Model]; d.model == nil {
			return errPolicy()
		}
	}
	if !d.chooseProfile() {
		return errPolicy()
	}
	d.salt = dec.Salt
	if d.private() {
		d.salt = policy.RandomSalt()
	}
	if d.mode == modePlace && !dec.Affinity.Sticky && d.s.st.holdout(d.prof.Holdout) {
		d.arm = armHoldout
	}
	return nil
}

// holdout reports whether the next request belongs to the control arm. The
// sample is stratified: one of each 1/share requests, at a random position, so that
// no short stretch of traffic has many of them.
func (s *State) holdout(share float64) bool {
	if share <= 0 {
		return false
	}
	n := s.sampled.Add(1) - 1
	period := uint64(math.Round(1 / share))
	if period <= 1 {
		return share >= 1 || float64(mix(s.cfg.Seed^n)>>11)/(1<<53) < share
	}
	return mix(s.cfg.Seed^(n/period))%period == n%period
}

// shorten bounds the length of a client's text in an error.
func shorten(s string) string {
	if len(s) > 128 {
		return s[:128] + "…"
	}
	return s
}
