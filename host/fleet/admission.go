package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// ErrRefused is wrapped where the policy refuses an endpoint. Other errors of an
// Admission say that it gave no answer.
var ErrRefused = errors.New("policy refuses")

// Admission decides which discovered endpoints and machines may join a pool.
type Admission struct {
	// Policy returns whether the policy in force is asked, and that policy, nil
	// while none could be loaded.
	Policy func() (asked bool, p *policy.Snapshot)
}

// Admit returns nil if the endpoint at url may join pool p.
func (a *Admission) Admit(p *config.Pool, url string) error {
	asked, s := a.Policy()
	if !asked {
		return nil
	}
	if s == nil {
		return fmt.Errorf("no policy is in force that could admit %s", url)
	}
	answer, err := s.Backend(&policy.BackendQuestion{URL: url, Pool: p.Name, Dialect: p.Dialect, Labels: p.Labels})
	switch {
	case err != nil:
		return fmt.Errorf("policy query for %s: %w", url, err)
	case !answer.Allow:
		return fmt.Errorf("%w %s: %s", ErrRefused, url, strings.Join(answer.Refusals, ", "))
	}
	return nil
}

// admitted returns the URLs that may join pool p, and why others may not. An
// endpoint of the pool (had) stays when the policy gives no answer: a policy at
// fault admits no endpoint and removes none.
func (a *Admission) admitted(p *config.Pool, urls, had []string) (in []string, err error) {
	var faults []error
	for _, u := range urls {
		err := a.Admit(p, u)
		if err != nil {
			faults = append(faults, err)
		}
		if err == nil || !errors.Is(err, ErrRefused) && slices.Contains(had, u) {
			in = append(in, u)
		}
	}
	return in, errors.Join(faults...)
}
