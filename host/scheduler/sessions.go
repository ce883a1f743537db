package scheduler

import "hash/maphash"

// Where the prompt is not known, a session's requests go where its last one
// went, unless that endpoint has more than twice the mean outstanding work and
// 8,192 tokens besides ("sticky-spill2" of the replay: it repaired most of
// plain stickiness' p95 and needs no events).
const (
	spillRatio = 2
	spillSlack = 8192
)

// sessionKey is the session's key, 0 = none: a keyed hash of the client's hint,
// else of the request's user field. The hash is keyed because clients choose what
// is hashed: they cannot find two sessions, or two tenants, that meet.
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

// sessionHome returns where the request's session has its home, if it has one.
func (d *decision) sessionHome() (home, bool) {
	key := d.sessionKey()
	if key == 0 {
		return home{}, false
	}
	return d.s.st.sessions.get(key)
}

// Sessions returns how many sessions have their home on each endpoint, by life.
// A session is forgotten after between 32 and 64 Ki others.
func (s *State) Sessions() map[uint32]int { return s.sessions.counts() }

// home returns the column of a session's home, -1 if it has none or that is not
// a candidate. Key 0 is no session.
func (d *decision) homeColumn(key uint64) int {
	if key == 0 {
		return -1
	}
	h, ok := d.s.st.sessions.get(key)
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

// sticky returns the column of a session's home, or -1 if it has none, it is
// not a candidate, or it has too much work.
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
