package simengine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Faults are the ways in which an engine misbehaves on demand. A count is the
// number of remaining times: 0 none, -1 always. POST /sim/faults sets the
// members that it names and leaves the others unchanged.
type Faults struct {
	// Hang is the number of requests that receive no byte until the client leaves.
	Hang int `json:"hang"`
	// Reject is the number of requests answered with RejectStatus at once.
	Reject       int `json:"reject"`
	RejectStatus int `json:"reject_status"`
	// Die is the number of answers cut off after DieAfterEvents SSE events (or
	// in the middle of a whole JSON answer) by closing the connection.
	Die            int `json:"die"`
	DieAfterEvents int `json:"die_after_events"`
	// DropBatches is the number of event batches that no subscriber receives;
	// each still uses a sequence number. DropShare is the share of batches that
	// are dropped at random, in [0, 1]. DropReplay drops them from replay, too.
	DropBatches int     `json:"drop_batches"`
	DropShare   float64 `json:"drop_share"`
	DropReplay  bool    `json:"drop_replay"`
	// ScrambleHashes replaces every hash in events by a random one,
	// ScrambleTokens every token.
	ScrambleHashes bool `json:"scramble_hashes"`
	ScrambleTokens bool `json:"scramble_tokens"`
	// NoCachedTokens leaves prompt_tokens_details out of usage, as vLLM does
	// without --enable-prompt-tokens-details.
	NoCachedTokens bool `json:"no_cached_tokens"`
	// LateHead sends the head of a stream with its first event. Without it the
	// head is sent as soon as the request is accepted, long before the first
	// token, as vLLM (uvicorn) does.
	LateHead bool `json:"late_head"`
}

func (f *Faults) validate() error {
	switch {
	case f.Hang < -1 || f.Reject < -1 || f.Die < -1 || f.DropBatches < -1 || f.DieAfterEvents < 0:
		return errors.New("simengine: negative fault count")
	case !(f.DropShare >= 0 && f.DropShare <= 1):
		return fmt.Errorf("simengine: drop_share %v is no share", f.DropShare)
	case f.Reject != 0 && (f.RejectStatus < 400 || f.RejectStatus > 599):
		return fmt.Errorf("simengine: reject_status %d is no error", f.RejectStatus)
	}
	return nil
}

// faultBox holds the faults in force. All methods may be called concurrently.
type faultBox struct {
	mu  sync.Mutex
	f   Faults     // guarded by mu
	rng *rand.Rand // guarded by mu
}

// spend decrements a positive count and reports whether the count was not 0.
func spend(n *int) bool {
	if *n > 0 {
		*n--
		return true
	}
	return *n < 0
}

func (b *faultBox) hang() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return spend(&b.f.Hang)
}

// reject returns the status with which a request is refused, 0 for none.
func (b *faultBox) reject() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if spend(&b.f.Reject) {
		return b.f.RejectStatus
	}
	return 0
}

// die returns the number of events after which an answer ends, -1 for never.
func (b *faultBox) die() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if spend(&b.f.Die) {
		return b.f.DieAfterEvents
	}
	return -1
}

// drop reports whether the next batch is withheld from subscribers, and from replay.
func (b *faultBox) drop() (live, replay bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	live = spend(&b.f.DropBatches) || b.f.DropShare > 0 && b.rng.Float64() < b.f.DropShare
	return live, live && b.f.DropReplay
}

// scrambler returns the scrambler for the hashes and tokens of events.
func (b *faultBox) scrambler() scrambler {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := scrambler{hashes: b.f.ScrambleHashes, tokens: b.f.ScrambleTokens}
	if s.hashes || s.tokens {
		s.rng = rand.New(rand.NewPCG(b.rng.Uint64(), 0))
	}
	return s
}

func (b *faultBox) get() Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.f
}

// merge sets the members that a JSON object names and returns all faults.
func (b *faultBox) merge(body []byte) (Faults, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.f
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&next); err != nil {
		return b.f, fmt.Errorf("simengine: faults: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return b.f, errors.New("simengine: faults: more than one value")
	}
	if err := next.validate(); err != nil {
		return b.f, err
	}
	b.f = next
	return next, nil
}

// serveFaults serves GET and POST /sim/faults.
func (e *Engine) serveFaults(w *reply, r *request) {
	f := e.faults.get()
	if r.method == http.MethodPost {
		var err error
		if f, err = e.faults.merge(r.body); err != nil {
			w.error(badRequest("", "%v", err))
			return
		}
	}
	w.value(f)
}

// serveRestart behaves as if the process restarted: POST /sim/restart?down_ms=N.
// Its own answer is the last one before the restart.
func (e *Engine) serveRestart(w *reply, r *request) {
	down, ok := r.number("down_ms")
	if !ok {
		w.error(badRequest("down_ms", "down_ms is no number"))
		return
	}
	w.close = true
	w.value(map[string]bool{"restarting": true})
	e.restart(time.Duration(down) * time.Millisecond)
}
