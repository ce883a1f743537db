package endpoint

import (
	"math"
	"time"
)

// shareHalf is the half-life of finished work, so that a share is of about the
// last minutes: a shorter one forgets a tenant between two bursts, a longer one
// counts the load of the last hour.
const shareHalf = time.Minute

// maxShares bounds the tenants whose recent work on one endpoint is counted for
// each; that of further ones counts for the endpoint only.
const maxShares = 1024

// shares is the recent work of tenants on one endpoint, guarded by Load.mu.
type shares struct {
	own   map[string]float64 // uncached tokens by tenant
	all   float64
	since time.Time // the last halving
}

// fade halves everything for each shareHalf that has passed.
func (s *shares) fade(now time.Time) {
	n := int64(now.Sub(s.since) / shareHalf)
	if n <= 0 {
		return
	}
	s.since = s.since.Add(time.Duration(n) * shareHalf)
	f := math.Pow(0.5, float64(min(n, 64)))
	if s.all *= f; s.all < 1 {
		s.all = 0
	}
	for t, v := range s.own {
		if v *= f; v < 1 {
			delete(s.own, t)
			continue
		}
		s.own[t] = v
	}
}

// Worked records that uncached tokens of a tenant were computed.
func (l *Load) Worked(tenant string, uncached int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.recent
	if s.own == nil {
		s.own, s.since = make(map[string]float64, 4), now
	}
	s.fade(now)
	s.all += float64(uncached)
	if v, ok := s.own[tenant]; ok || len(s.own) < maxShares {
		s.own[tenant] = v + float64(uncached)
	}
}

// TenantWork returns the uncached tokens, outstanding and of about the last
// minutes, of one tenant and of all.
func (l *Load) TenantWork(tenant string, now time.Time) (own, all float32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.fade(now)
	return float32(float64(l.tenants[tenant]) + l.recent.own[tenant]),
		float32(float64(l.outstanding.Load()) + l.recent.all)
}

// Concentration returns, of the work of about the last minutes, the greatest
// share that one tenant has and the sum of the squares of all shares, both in
// [0, 1], 0 without work. Tenants beyond maxShares have no share.
func (l *Load) Concentration(now time.Time) (most, hhi float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent.fade(now)
	if l.recent.all <= 0 {
		return 0, 0
	}
	for _, v := range l.recent.own {
		share := min(1, v/l.recent.all)
		most = max(most, share)
		hhi += share * share
	}
	return most, min(1, hhi)
}
