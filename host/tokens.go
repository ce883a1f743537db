package host

import (
	"context"
	"fmt"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// tokenVerifier makes the verifier of a configuration's issuers, nil if it has
// none. Issuers that did not change go on with the keys that prev has of them.
func tokenVerifier(cfg *config.Config, prev *generation) (*jwt.Verifier, error) {
	if len(cfg.Identity.JWT) == 0 {
		return nil, nil
	}
	var issuers []jwt.Config
	for i := range cfg.Identity.JWT {
		issuers = append(issuers, cfg.Identity.JWT[i].Config())
	}
	var before *jwt.Verifier
	if prev != nil {
		before = prev.tokens
	}
	v, err := jwt.New(issuers, before)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return v, nil
}

// tokensInForce returns the verifier in force, nil if there is none.
func (h *Host) tokensInForce() *jwt.Verifier {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().tokens
}

// refreshKeysEvery is how often it is looked whether an issuer's keys are due; a
// look costs a comparison of times.
const refreshKeysEvery = time.Second

// refreshKeys keeps the issuers' keys fresh.
func (h *Host) refreshKeys(ctx context.Context) error {
	t := time.NewTicker(refreshKeysEvery)
	defer t.Stop()
	for {
		if v := h.tokensInForce(); v != nil {
			for issuer, err := range v.Refresh(ctx) {
				h.log.Warn("keys of an issuer could not be fetched", "issuer", issuer, "err", err)
			}
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *Host) collectTokens(e *telemetry.Emitter) {
	v := h.tokensInForce()
	if v == nil {
		return
	}
	ts := v.Stats()
	e.Emit(metric.JWTCacheHits, float64(ts.CacheHits))
	e.Emit(metric.JWTVerified, float64(ts.Verified))
	for reason, n := range ts.Refused {
		e.Emit(metric.JWTRefused, float64(n), reason)
	}
	for _, i := range ts.Issuers {
		e.Emit(metric.JWKSKeys, float64(i.Keys), i.Issuer)
		e.Emit(metric.JWKSAgeSeconds, i.Age.Seconds(), i.Issuer)
		e.Emit(metric.JWKSFetchFailures, float64(i.Failed), i.Issuer)
	}
}
