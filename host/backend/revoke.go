package backend

import (
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Revoke takes the endpoint's isolation away, because a request was answered with
// excess cached tokens that its own namespace cannot hold there: the engine has
// served another namespace's blocks. Requests in a salted namespace stop going
// there before Revoke returns. What an answer has shown outweighs any probe, which
// cannot reach every cache tier: the endpoint stays without isolation until its
// engine restarts or [Watcher.Readmit] is called.
//
// It is only logged and counted where the probe's configuration says LogOnly, and
// after a change of the configuration that gave blocks other names or where the
// router has forgotten what it sent, until events or a restart of the engine make
// its cache known again. In the latter cases it reports false: the answer proves
// nothing.
func (w *Watcher) Revoke(excess int) (proof bool) {
	reason := fmt.Sprintf("an answer reported %d cached tokens that its namespace cannot hold", excess)
	proof = !w.renamed.Load()
	w.mu.Lock()
	if proof {
		w.status.Probe.Unexplained++
	} else {
		w.status.Probe.Unproven++
	}
	cfg := w.cfg
	w.mu.Unlock()
	if cfg.Probe.LogOnly || !proof {
		cfg.Log.Warn("cached tokens are not explained by their namespace", "tokens", excess, "records_complete", proof)
		return proof
	}
	if w.revoked.Swap(true) {
		return proof
	}
	w.endpoints.Update(cfg.ID, func(e *endpoint.State) {
		e.Isolation = endpoint.IsolationNone
		e.NoSalt |= uint16(llmapi.Prompts)
	})
	w.note(func(s *Status) {
		s.Probe.Isolation, s.Probe.Reason, s.Probe.At = endpoint.IsolationNone, reason, time.Now()
		s.Probe.Revocations++
	})
	cfg.Log.Error("engine served another namespace's cache: it receives no more salted requests", "tokens", excess)
	if cfg.Revoked != nil {
		cfg.Revoked(reason)
	}
	return proof
}

// Readmit ends the revocation of isolation, on behalf of an operator, and has
// the engine probed again soon.
func (w *Watcher) Readmit() {
	if !w.revoked.Load() {
		return
	}
	w.readmit.Store(true)
	w.wakeRun()
}

// readmitted takes a call of Readmit, in the goroutine of Run.
func (w *Watcher) readmitted() {
	if w.readmit.Swap(false) {
		w.resetIsolation()
	}
}
