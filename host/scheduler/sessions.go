package scheduler

import (
	"hash/maphash"
	"time"
)

// If the prompt is not known, a request goes to the endpoint of its session's last
// request, unless that endpoint has more than twice the mean outstanding work and 8,192
// tokens besides ("sticky-spill2" of the replay: it avoids most of the p95 of plain
// stickiness and needs no events).
const (
	spillRatio = 2
	spillSlack = 8192
)

// sessionKey returns the key of the request's session, 0 = none: a keyed hash of the
// client's hint, else of the request's user field. The hash is keyed because clients
// choose its input: they cannot find sessions, of one tenant or two, that collide.
func (d *decision) sessionKey() uint64 {
	s := d.r.Session
	if s == "" {
		s = d.r.API.User
	}
	if s == "" {
		return 0
	}
	tenant := ""
	if d.r.Principal != nil {
		tenant = d.r.Principal.Tenant
	}
	keys := d.s.st.keys
	return mix(maphash.String(keys, s)^mix(maphash.String(keys, tenant)^d.model.key)) | 1
}

// defaultSessionTTL is how long a session without requests keeps its home: a person who
// returns later finds little of a conversation in the cache of a busy engine.
const defaultSessionTTL = 30 * time.Minute

// sessionHome returns the home of a session, false if it has none or the last request
// that set it is older than the profile allows. Key 0 is no session.
func (d *decision) sessionHome(key uint64) (home, bool) {
	if key == 0 {
		return home{}, false
	}
	h, ok := d.s.st.sessions.get(key)
	return h, ok && d.now.UnixNano()-h.at <= int64(d.prof.SessionTTL)
}

// Sessions returns the number of sessions whose home is each endpoint, by epoch of the
// slot. A session is forgotten after between 32 and 64 Ki others; until then it counts,
// also beyond Profile.SessionTTL.
func (s *State) Sessions() map[uint32]int { return s.sessions.counts() }

// homeColumn returns the column of a session's home, -1 if it has none or its home is
// no candidate.
func (d *decision) homeColumn(key uint64) int {
	h, ok := d.sessionHome(key)
	if !ok {
		return -1
	}
	for i, id := range d.b.Endpoints {
		if id == h.id && d.info(&d.cands[d.order[i]]).Epoch == h.epoch {
			return i
		}
	}
	return -1
}

// stickyColumn returns the column of a session's home, -1 if it has none, or its home is
// no candidate or has too much work.
func (d *decision) stickyColumn(key uint64) int {
	at := d.homeColumn(key)
	if at < 0 || d.over[at] != reasonNone {
		return -1
	}
	var sum float32
	for _, v := range d.live.outstanding {
		sum += v
	}
	if d.live.outstanding[at] > float32(spillRatio*(sum/float32(d.b.N)))+spillSlack {
		return -1
	}
	return at
}
