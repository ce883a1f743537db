package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// admitted asks the policy in force whether an endpoint that was found or made
// may join a pool, where the configuration says that it is asked.
func (h *Host) admitted(p *config.Pool, url string) error {
	l := h.rules.Acquire()
	g := l.Value()
	l.Release()
	if g == nil || !g.cfg.Policy.AdmitEndpoints {
		return nil
	}
	if g.policy == nil {
		return fmt.Errorf("no policy is in force that could admit %s", url)
	}
	a, err := g.policy.Backend(&policy.BackendQuestion{URL: url, Pool: p.Name, Dialect: p.Dialect, Labels: p.Labels})
	switch {
	case err != nil:
		return fmt.Errorf("policy was asked about %s: %w", url, err)
	case !a.Allow:
		return fmt.Errorf("policy refuses %s: %s", url, strings.Join(a.Refusals, ", "))
	}
	return nil
}

// admit returns the URLs that may join the pool, and why others may not.
func (h *Host) admit(pool string, urls []string) (may []string, err error) {
	l := h.rules.Acquire()
	cfg := l.Value().cfg
	l.Release()
	i := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return p.Name == pool })
	if i < 0 {
		return nil, nil
	}
	var all []error
	for _, u := range urls {
		if e := h.admitted(&cfg.Pools[i], u); e != nil {
			all = append(all, e)
			continue
		}
		may = append(may, u)
	}
	return may, errors.Join(all...)
}
