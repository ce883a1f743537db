package rules

import (
	"context"
	"time"

	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// saveUsesEvery bounds how many of the keys' last uses a crash loses; the file is
// small.
const saveUsesEvery = 30 * time.Second

// KeepUses saves the last use of each API key to path, periodically and when ctx
// ends.
func (m *Manager) KeepUses(ctx context.Context, path string) error {
	t := time.NewTicker(saveUsesEvery)
	defer t.Stop()
	for {
		err := error(nil)
		select {
		case <-t.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if failed := m.opt.Identity.SaveUses(path, m.Credentials()); failed != nil {
			m.opt.Log.Warn("last uses of API keys not saved", "err", failed)
		}
		if err != nil {
			return err
		}
	}
}

// tokens returns the verifier in force, nil if there is none.
func (m *Manager) tokens() *jwt.Verifier {
	l := m.Acquire()
	defer l.Release()
	return l.Value().Tokens
}

// refreshEvery is how often the refresh times of issuers' keys are checked, which costs
// a comparison.
const refreshEvery = time.Second

// RefreshTokens keeps the issuers' keys fresh until ctx ends.
func (m *Manager) RefreshTokens(ctx context.Context) error {
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		if v := m.tokens(); v != nil {
			for issuer, err := range v.Refresh(ctx) {
				m.opt.Log.Warn("issuer's keys not fetched", "issuer", issuer, "err", err)
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CollectTokens emits the metrics of the issuers and their tokens.
func (m *Manager) CollectTokens(e *telemetry.Emitter) {
	v := m.tokens()
	if v == nil {
		return
	}
	st := v.Stats()
	e.Emit(metric.JWTCacheHits, float64(st.CacheHits))
	e.Emit(metric.JWTVerified, float64(st.Verified))
	for reason, n := range st.Refused {
		e.Emit(metric.JWTRefused, float64(n), reason)
	}
	for _, i := range st.Issuers {
		e.Emit(metric.JWKSKeys, float64(i.Keys), i.Issuer)
		e.Emit(metric.JWKSAgeSeconds, i.Age.Seconds(), i.Issuer)
		e.Emit(metric.JWKSFetchFailures, float64(i.Failed), i.Issuer)
	}
}
