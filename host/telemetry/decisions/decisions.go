// Package decisions logs the decisions of the policy to a file of JSON lines, with
// the field names of OPA's own decision logs.
//
// It is asynchronous: a request puts an [Entry] into a bounded queue, and one
// goroutine ([Log.Run]) renders, masks and writes. When the queue is full, entries
// are dropped and counted. If every decision must be logged, [Log.Reserve] reserves
// a place before the decision, and the request is refused if there is none.
package decisions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/telemetry/placements"
)

// Config is the configuration of a Log.
type Config struct {
	File string

	// SampleAllow is the share of allowed requests that are logged unless the
	// policy's audit field differs, in [0, 1]. Denials are always logged.
	SampleAllow float64
	// SamplePlacements is the share of allowed requests that are logged with their
	// candidates, columns, scores and outcome, in [0, 1], whatever SampleAllow is.
	SamplePlacements float64
	// Mask lists paths that are left out, such as /input/tenant/user.
	Mask []string
	// MaxBytes is the size at which the file is rotated to FILE.1; 0 = 64 MiB, some 60,000
	// decisions.
	MaxBytes int64
	// Keep is the number of rotated files that are kept; 0 = 8.
	Keep int
	// Queue is the number of entries that may wait to be written; 0 = 8192: a
	// second of denials at a rate above that of any site.
	Queue int
	// Sync waits for the disk after each batch.
	Sync bool

	Labels map[string]string // of this router, in every line
	Log    *slog.Logger      // nil = silent
}

func (c *Config) withDefaults() {
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.Keep == 0 {
		c.Keep = 8
	}
	if c.Queue == 0 {
		c.Queue = 8192
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Validate reports all errors of c.
func (c *Config) Validate() error {
	var all []error
	if c.File == "" {
		all = append(all, errors.New("decisions: no file"))
	}
	if !(c.SampleAllow >= 0 && c.SampleAllow <= 1) {
		all = append(all, fmt.Errorf("decisions: sample_allow %v, want a share from 0 to 1", c.SampleAllow))
	}
	if !(c.SamplePlacements >= 0 && c.SamplePlacements <= 1) {
		all = append(all, fmt.Errorf("decisions: sample_placements %v, want a share from 0 to 1", c.SamplePlacements))
	}
	if c.MaxBytes < 0 || c.Keep < 0 || c.Queue < 0 {
		all = append(all, fmt.Errorf("decisions: bounds %d, %d, %d", c.MaxBytes, c.Keep, c.Queue))
	}
	if err := CheckMask(c.Mask); err != nil {
		all = append(all, fmt.Errorf("decisions: mask: %w", err))
	}
	return errors.Join(all...)
}

// Log is a decision log. All methods but Run may be called concurrently, at any
// time; Run once.
type Log struct {
	cfg     Config
	queue   chan *Entry
	places  atomic.Int64 // taken, of cap(queue)
	failing atomic.Bool  // the file could not be written last time
	written atomic.Uint64
	dropped atomic.Uint64
	file    file // of Run
	key     *placements.Key
}

// Open checks that the file can be opened, and creates it with mode 0600 if it does
// not exist. Nothing is written until Run is called.
func Open(cfg Config) (*Log, error) {
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, queue: make(chan *Entry, cfg.Queue), key: placements.NewKey(),
		file: file{path: cfg.File, max: cfg.MaxBytes, keep: cfg.Keep, sync: cfg.Sync}}
	if err := l.file.open(); err != nil {
		return nil, err
	}
	l.file.close() // Run opens it again; a Log that never runs has nothing to close
	return l, nil
}

// Wanted reports whether a decision is to be logged. d is nil if the
// policy gave no decision, which is always logged.
func (l *Log) Wanted(d *policy.Decision, refused bool) bool {
	if d == nil || refused || !d.Allow {
		return true
	}
	switch d.Audit {
	case policy.AuditNone:
		return false
	case policy.AuditFull:
		return true
	}
	return l.cfg.SampleAllow > 0 && rand.Float64() < l.cfg.SampleAllow
}

// WantsPlacement reports whether an allowed request is to be logged with its
// placement.
func (l *Log) WantsPlacement(d *policy.Decision) bool {
	return l.cfg.SamplePlacements > 0 && d != nil && d.Audit != policy.AuditNone &&
		rand.Float64() < l.cfg.SamplePlacements
}

// Key encrypts the block hashes of placements.
func (l *Log) Key() *placements.Key { return l.key }

// Reserve reserves a place for one entry, for Commit or Cancel. It returns false if
// there is none, or if the file cannot be written.
func (l *Log) Reserve() bool {
	if l.failing.Load() {
		return false
	}
	return l.take()
}

func (l *Log) take() bool {
	if l.places.Add(1) <= int64(cap(l.queue)) {
		return true
	}
	l.places.Add(-1)
	return false
}

// Commit logs e in a reserved place.
func (l *Log) Commit(e *Entry) { l.queue <- e } // there is room: places count it

// Cancel releases a reserved place.
func (l *Log) Cancel() { l.places.Add(-1) }

// Record logs e if there is room; otherwise e is counted as dropped.
func (l *Log) Record(e *Entry) {
	if !l.take() {
		l.dropped.Add(1)
		return
	}
	l.Commit(e)
}

// maxBatch bounds the bytes that are rendered before they are written.
const maxBatch = 256

// retryEvery is the interval between attempts to write a file that cannot be written.
// Meanwhile entries wait in the queue.
const retryEvery = time.Second

// Run writes until ctx ends, then writes what is in the queue and closes the file.
func (l *Log) Run(ctx context.Context) error {
	defer l.file.close()
	var b bytes.Buffer
	for {
		select {
		case e := <-l.queue:
			n := l.render(&b, e)
			if !l.write(ctx, &b, n) {
				return ctx.Err()
			}
		case <-ctx.Done():
			for len(l.queue) > 0 {
				n := l.render(&b, <-l.queue)
				if !l.write(ctx, &b, n) {
					break
				}
			}
			return ctx.Err()
		}
	}
}

// render appends the lines of e and of other waiting entries and returns their number.
func (l *Log) render(b *bytes.Buffer, e *Entry) (n int) {
	b.Reset()
	for {
		line, err := json.Marshal(l.event(e))
		if err != nil { // a mask set a value that JSON cannot represent
			line, _ = json.Marshal(map[string]any{"timestamp": e.Time, "request_id": e.RequestID,
				"error": map[string]any{"code": "not_rendered"}})
		}
		b.WriteString(secret.Redact(string(line))) // clients choose model names, labels and ids
		b.WriteByte('\n')
		if n++; n == maxBatch {
			return n
		}
		select {
		case e = <-l.queue:
		default:
			return n
		}
	}
}

// write writes n lines and retries until it succeeds. It returns false if ctx ended
// first; the lines are then dropped.
func (l *Log) write(ctx context.Context, b *bytes.Buffer, n int) bool {
	defer l.places.Add(int64(-n))
	for {
		err := l.file.write(b.Bytes())
		if err == nil {
			l.written.Add(uint64(n))
			if l.failing.Swap(false) {
				l.cfg.Log.Info("the decision log can be written again")
			}
			return true
		}
		if !l.failing.Swap(true) {
			l.cfg.Log.Error("the decision log cannot be written", "err", err)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			l.dropped.Add(uint64(n))
			return false
		}
	}
}

// Stats holds counts since the start.
type Stats struct {
	Written, Dropped uint64
	Waiting          int
	Failing          bool
}

// Stats returns the counts.
func (l *Log) Stats() Stats {
	return Stats{Written: l.written.Load(), Dropped: l.dropped.Load(), Waiting: int(l.places.Load()),
		Failing: l.failing.Load()}
}
