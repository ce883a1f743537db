package scheduler

import "github.com/kvasir-router/kvasir/host/endpoint"

// Where the prompt is not known, a session's requests go where its last one
// went, unless that endpoint has more than twice the mean outstanding work and
// 8,192 tokens besides ("sticky-spill2" of the replay: it repaired most of
// plain stickiness' p95 and needs no events).
const (
	spillRatio = 2
	spillSlack = 8192
	// maxSessions in each of two maps that take turns: a session, or an answer, is
	// forgotten after between 32 and 64 Ki others.
	maxSessions = 32 << 10
)

// homes remembers where something is, by its key. It is guarded by State.mu.
type homes[K comparable] struct{ young, old map[K]sessionHome }

type sessionHome struct {
	id  endpoint.ID
	gen uint32
}

func (t *homes[K]) init() { t.young = map[K]sessionHome{} }

func (t *homes[K]) get(key K) (sessionHome, bool) {
	h, ok := t.young[key]
	if !ok {
		h, ok = t.old[key]
	}
	return h, ok
}

func (t *homes[K]) set(key K, h sessionHome) {
	if len(t.young) >= maxSessions {
		t.old, t.young = t.young, make(map[K]sessionHome, maxSessions)
	}
	t.young[key] = h
}

// sessionKey is the session's key, 0 = none: the client's hint, else the
// request's user field. Sessions of two tenants or models never meet.
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
	return mix(hashString(s)^mix(hashString(tenant)^d.model.key)) | 1
}

// sessionHome returns where the request's session has its home, if it has one.
func (d *decision) sessionHome() (sessionHome, bool) {
	key := d.sessionKey()
	if key == 0 {
		return sessionHome{}, false
	}
	d.s.st.mu.Lock()
	defer d.s.st.mu.Unlock()
	return d.s.st.sessions.get(key)
}

// Sessions returns how many sessions have their home on each endpoint, by life.
// A session is forgotten after between 32 and 64 Ki others.
func (s *State) Sessions() map[uint32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[uint32]int{}
	for key, h := range s.sessions.old {
		if _, moved := s.sessions.young[key]; !moved {
			out[h.gen]++
		}
	}
	for _, h := range s.sessions.young {
		out[h.gen]++
	}
	return out
}

// home returns the column of a session's home, -1 if it has none or that is not
// a candidate. Key 0 is no session.
func (d *decision) home(key uint64) int {
	if key == 0 {
		return -1
	}
	h, ok := d.s.st.sessions.get(key)
	if !ok {
		return -1
	}
	for i, id := range d.b.Endpoints {
		if id == h.id && d.info(&d.cands[d.order[i]]).Generation == h.gen {
			return i
		}
	}
	return -1
}

// sticky returns the column of a session's home, or -1 if it has none, it is
// not a candidate, or it has too much work.
func (d *decision) sticky(key uint64) int {
	at := d.home(key)
	if at < 0 || d.over[at] != reasonNone {
		return -1
	}
	var sum float32
	for _, v := range d.b.Outstanding {
		sum += v
	}
	if d.b.Outstanding[at] > float32(spillRatio*(sum/float32(d.b.N)))+spillSlack {
		return -1
	}
	return at
}
