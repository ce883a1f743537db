package endpoint

// Others is the load that an endpoint reported beyond what this router had in flight
// there when the report was read: of other routers, and of clients that use the engine
// directly. The zero Others is none.
type Others struct {
	Requests float32 // running and waiting
	Waiting  float32 // of these, those that the engine has not begun
	KVTokens float32 // KV memory in use for them, 0 = not known
}

// othersMargin is how many requests beyond this router's own an engine may report
// without their being another's: its figures are up to a step older than their
// reading, and requests that a client cancelled run on for a step or two. A tenth of
// the own requests are added: at 100 requests in flight and 2 s each, 50 end within
// a second.
const (
	othersMargin = 1
	othersShare  = 0.1
)

// ownLoad is what this router has in flight on an endpoint.
type ownLoad struct{ requests, pending, kv int64 }

func (l *Load) own() ownLoad {
	return ownLoad{l.inflight.Load(), l.pending.Load(), l.kvActive.Load()}
}

// othersOf returns what st reports beyond the router's own load: the greater of those at
// this and at the previous report, so that requests that ended between the engine's
// count and its reading are not taken for another's.
func othersOf(st *State, is, was ownLoad) Others {
	own := max(is.requests, was.requests)
	n := float32(st.Running) + float32(st.Waiting) - float32(own)
	if n <= othersMargin+othersShare*float32(own) {
		return Others{}
	}
	o := Others{Requests: n, Waiting: min(n, max(0, float32(st.Waiting)-float32(max(is.pending, was.pending))))}
	capacity := float32(st.CacheBlocks) * float32(st.BlockTokens)
	o.KVTokens = max(0, clampShare(st.KVUsage)*capacity-float32(max(is.kv, was.kv)))
	return o
}
