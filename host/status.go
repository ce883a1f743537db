package host

import (
	"errors"
	"time"

	"github.com/kvasir-router/kvasir/host/status"
)

// openStatus makes what the admin API's questions are answered by.
func (h *Host) openStatus() {
	h.status = status.New(status.Config{
		Version: h.opt.Version, Started: h.started, Ready: h.ready, State: h.state, Proxy: h.proxy, Index: h.index,
		Audit: h.audit, Store: h.store, Watcher: h.fleet.Watcher,
		Revision: func() (uint64, time.Time) {
			l := h.rules.Acquire()
			defer l.Release()
			return l.Value().Number, l.Value().Built
		},
	})
}

func (h *Host) explainer() *status.Explainer {
	return &status.Explainer{Rules: routeRules{h}, State: h.state, Now: func() time.Time { return h.now() },
		Anonymous: func() string { return h.rules.Credentials().Anonymous() }}
}

// ready returns nil if requests are served, else why not.
func (h *Host) ready() error {
	select {
	case <-h.readyCh:
	default:
		return errors.New("endpoints are being checked for the first time")
	}
	if h.policy().Status().State == "unloaded" {
		return errors.New("no policy could be loaded: see GET /v1/policy")
	}
	return nil
}
