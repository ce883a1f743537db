package simengine

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

func uitoa(n uint64) string { return strconv.FormatUint(n, 10) }

// record is one line of GET /sim/requests. Times are milliseconds of the Unix
// epoch, null if it has not happened; the first byte is that of the answer's
// body.
type record struct {
	ID           string   `json:"id"`
	Path         string   `json:"path"`
	Head         []byte   `json:"head"` // as received
	Body         []byte   `json:"body"` // without chunk framing
	ReceivedMS   float64  `json:"received_ms"`
	FirstByteMS  *float64 `json:"first_byte_ms"`
	EndMS        *float64 `json:"end_ms"`
	Aborted      bool     `json:"aborted"` // the client left or the answer was cut off before its end
	PromptTokens int      `json:"prompt_tokens"`
	CachedTokens int      `json:"cached_tokens"`
}

// requestLog keeps the latest requests, bounded in number and in bytes of heads
// and bodies: the oldest are dropped first. All methods may be called concurrently.
type requestLog struct {
	maxRecords int
	maxBytes   int64

	mu      sync.Mutex
	records []*record // guarded by mu, as the records are; oldest first
	bytes   int64     // guarded by mu
}

func newRequestLog(records int, bytes int64) *requestLog {
	return &requestLog{maxRecords: records, maxBytes: bytes}
}

func milliseconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e3 }

func (l *requestLog) begin(id string, r *request) *record {
	rec := &record{ID: id, Path: r.path, Head: r.head, Body: r.body, ReceivedMS: milliseconds(r.received)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, rec)
	l.bytes += rec.size()
	for len(l.records) > l.maxRecords || l.bytes > l.maxBytes {
		l.bytes -= l.records[0].size()
		l.records[0] = nil
		l.records = l.records[1:]
	}
	return rec
}

func (r *record) size() int64 { return int64(len(r.Head) + len(r.Body)) }

func (l *requestLog) firstByte(r *record, now time.Time) {
	ms := milliseconds(now)
	l.mu.Lock()
	r.FirstByteMS = &ms
	l.mu.Unlock()
}

func (l *requestLog) tokens(r *record, prompt, cached int) {
	l.mu.Lock()
	r.PromptTokens, r.CachedTokens = prompt, cached
	l.mu.Unlock()
}

func (l *requestLog) end(r *record, now time.Time, aborted bool) {
	ms := milliseconds(now)
	l.mu.Lock()
	r.EndMS, r.Aborted = &ms, aborted
	l.mu.Unlock()
}

func (l *requestLog) clear() {
	l.mu.Lock()
	l.records, l.bytes = nil, 0
	l.mu.Unlock()
}

// snapshot returns copies of the records, oldest first.
func (l *requestLog) snapshot() []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]record, len(l.records))
	for i, r := range l.records {
		out[i] = *r
	}
	return out
}

// serveRequests answers GET with one JSON line per request, oldest first
// (?body=0: without bodies), and DELETE by forgetting them.
func (e *Engine) serveRequests(w *reply, r *request) {
	if r.method == http.MethodDelete {
		e.log.clear()
		w.value(map[string]bool{"cleared": true})
		return
	}
	var out []byte
	for _, rec := range e.log.snapshot() {
		if r.query.Get("body") == "0" {
			rec.Body = nil
		}
		out = append(appendJSON(out, rec), '\n')
	}
	w.whole(http.StatusOK, "application/jsonl", out)
}

// serveCache answers GET /sim/cache; with ?hashes=1 it lists all blocks.
func (e *Engine) serveCache(w *reply, r *request) {
	var out struct {
		Blocks      int      `json:"blocks"` // matchable
		Capacity    int      `json:"capacity"`
		BlockTokens int      `json:"block_tokens"`
		Usage       float64  `json:"usage"` // share in use by running requests
		Stored      uint64   `json:"stored"`
		Evicted     uint64   `json:"evicted"`
		Hashes      []uint64 `json:"hashes,omitempty"`
	}
	e.mu.Lock()
	s := e.model.Stats()
	if r.query.Get("hashes") == "1" {
		out.Hashes = e.model.Hashes(nil)
	}
	e.mu.Unlock()
	out.Blocks, out.Capacity, out.BlockTokens = s.CacheBlocks, e.cfg.CacheBlocks, e.cfg.BlockTokens
	out.Usage, out.Stored, out.Evicted = s.CacheUsage, s.BlocksStored, s.BlocksEvicted
	w.value(out)
}
