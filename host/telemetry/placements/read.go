package placements

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Record is one placed request of a decision log.
type Record struct {
	ID        string    // of the decision
	Time      time.Time // of the decision
	RequestID string
	Tenant    string
	Namespace string // of the cache, "" = none
	Placement Placement
	Outcome   *Outcome // nil = the log does not have it
}

// ErrFormat is wrapped by every error about the contents of a log.
var ErrFormat = errors.New("placements: bad decision log")

// maxLine bounds one line: 64 candidates with 30 columns each and 512 hashes are
// below 100 KB.
const maxLine = 4 << 20

// maxOpen bounds the records that wait for their outcome while a log is read; the
// oldest is then passed on without one.
const maxOpen = 1 << 16

// line is what the package reads of a line.
type line struct {
	ID        string     `json:"decision_id"`
	Time      time.Time  `json:"timestamp"`
	Path      string     `json:"path"`
	RequestID string     `json:"request_id"`
	Tenant    string     `json:"tenant"`
	Namespace string     `json:"namespace"`
	Placement *Placement `json:"placement"`
	Outcome   *Outcome   `json:"outcome"`
}

// Read calls f with every placed request of a log, in the order in which they were
// decided, with its outcome where the log has it. Lines without a placement are
// skipped. An error of f ends Read, which returns it; all others wrap [ErrFormat].
func Read(r io.Reader, f func(*Record) error) error {
	q := reorder{byID: map[string]*Record{}, f: f}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; s.Scan(); n++ {
		if len(s.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return fmt.Errorf("%w: line %d: %v", ErrFormat, n, err)
		}
		if l.Placement != nil && l.Placement.Version != Version {
			return fmt.Errorf("%w: line %d: version %d, want %d", ErrFormat, n, l.Placement.Version, Version)
		}
		if err := q.take(&l); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return q.flush(0)
}

// reorder joins placements with their outcomes.
type reorder struct {
	open []*Record // in the order of their decisions
	byID map[string]*Record
	f    func(*Record) error
}

func (q *reorder) take(l *line) error {
	if l.Path == OutcomePath && l.Outcome != nil {
		if rec := q.byID[l.ID]; rec != nil {
			rec.Outcome = l.Outcome
		}
		return q.ready()
	}
	if l.Placement == nil {
		return nil
	}
	rec := &Record{ID: l.ID, Time: l.Time, RequestID: l.RequestID, Tenant: l.Tenant, Namespace: l.Namespace,
		Placement: *l.Placement}
	q.open = append(q.open, rec)
	q.byID[rec.ID] = rec
	return q.flush(maxOpen)
}

// ready passes on the records at the front whose outcome is known.
func (q *reorder) ready() error {
	for len(q.open) > 0 && q.open[0].Outcome != nil {
		if err := q.pass(); err != nil {
			return err
		}
	}
	return nil
}

// flush passes on all but the last keep records.
func (q *reorder) flush(keep int) error {
	for len(q.open) > keep {
		if err := q.pass(); err != nil {
			return err
		}
	}
	return nil
}

func (q *reorder) pass() error {
	rec := q.open[0]
	q.open[0] = nil
	q.open = q.open[1:]
	delete(q.byID, rec.ID)
	return q.f(rec)
}
