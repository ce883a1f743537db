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
		return fmt.Errorf("%w %s: %s", errRefused, url, strings.Join(a.Refusals, ", "))
	}
	return nil
}

// errRefused is the policy's no, where other errors are no answer.
var errRefused = errors.New("policy refuses")

// admit returns the URLs that may join the pool, and why others may not. One that
// is in it stays when the policy gives no answer: a policy that is at fault lets
// nobody in, and empties no pool.
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
		e := h.admitted(&cfg.Pools[i], u)
		if e != nil {
			all = append(all, e)
		}
		if e == nil || !errors.Is(e, errRefused) && h.fleet.hasFound(pool, u) {
			may = append(may, u)
		}
	}
	return may, errors.Join(all...)
}
