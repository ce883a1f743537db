package scheduler

import "github.com/kvasir-router/kvasir/host/policy"

// policyFields returns the fields of a decision for explain, nil if there was no
// decision. The salt is not among them.
func policyFields(d *policy.Decision) policy.Fields {
	if d == nil {
		return nil
	}
	return d.Fields()
}
