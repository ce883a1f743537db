package rules

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// logPolicy is the part of a policy that the decision log uses. It is immutable.
type logPolicy struct {
	*policy.Snapshot
	mask *policy.LogMask // nil = the policy has none
}

// newLogPolicy returns nil for no policy.
func newLogPolicy(s *policy.Snapshot) (decisions.Policy, error) {
	if s == nil {
		return nil, nil
	}
	m, err := s.LogMask()
	if err != nil && !errors.Is(err, policy.ErrNoRule) {
		return nil, err
	}
	return &logPolicy{s, m}, nil
}

// Mask implements decisions.Policy.
func (p *logPolicy) Mask(event map[string]any) ([]any, error) {
	if p.mask == nil {
		return nil, nil
	}
	return p.mask.Rules(event)
}
