// Package audit keeps a log of who changed what: an append-only file of JSON
// lines. Each line is on disk before the change is answered, and its hash covers
// all lines before it.
//
// A line is a JSON object whose last member is its hash:
//
//	{"seq":2,"time":"2026-01-02T03:04:05.000000006Z","actor":"key:abc","verb":"key:issue",
//	 "object":"tenant/acme","result":"ok","detail":{"id":"x"},"prev":"<64 hex>","hash":"<64 hex>"}
//
// hash = SHA-256(prev as 32 bytes ‖ body), where body is the line without
// `,"hash":"…"`, byte for byte. seq counts from 1 and prev is the hash of the
// line before; in line 1 it is zero. So an edit, a removal or an exchange of
// lines breaks the chain there, and [Verify] names the line.
//
// The chain has no key: a process that can write the file can compute a new chain or cut
// off its end. Both are detected only with a head that was kept elsewhere: keep
// [Log.Head], which the router shows as a metric and in its status, and check
// with [Verifier.Anchor].
//
// A file that has reached a bound is renamed to NAME.<seq of its last line> and
// the chain continues in a new file. This package deletes nothing.
//
// API keys and tokens in an event are replaced by "…" (package secret).
package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
	"github.com/kvasir-router/kvasir/host/internal/filelock"
)

// ErrBroken is wrapped by Open and Append if the file's last line does not belong
// to a chain: something else wrote to the file.
var ErrBroken = errors.New("audit: chain is broken")

// Event is one audited action. Strings longer than 1 KiB are cut.
type Event struct {
	Time   time.Time         // zero = when it is appended
	Actor  string            // who: identity.Principal.Name, "system", "cli:USER"
	Verb   string            // what was requested, such as plugin:push
	Object string            // on what, such as plugin/leastwork
	Result string            // one of the Result constants
	Detail map[string]string // further facts, at most 32; never a secret
}

// Words of Event.Result.
const (
	Begun   = "begun"   // allowed and about to be done; a line with the result follows
	OK      = "ok"      // done
	Failed  = "failed"  // allowed, tried, and not done
	Refused = "refused" // not allowed
)

// maxFile is the size at which the chain continues in the next file: some 200,000
// lines, which verify in about a second.
const maxFile = 64 << 20

// Log appends to a file. All methods may be called concurrently, and other
// processes may have a Log on the same file.
type Log struct {
	path string
	max  int64
	now  func() time.Time

	failures atomic.Uint64

	mu   sync.Mutex // guards the fields below
	f    *os.File   // nil after an error; opened by the next Append
	size int64
	head Head
}

// Head is the end of a chain.
type Head struct {
	Seq  uint64
	Hash [32]byte
}

// String returns seq:hash, the form that Verifier.Anchor and the command line
// take.
func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Seq, hex.EncodeToString(h.Hash[:])) }

// Number returns the first 48 bits of the hash, which a metric (a float64) holds
// exactly.
func (h Head) Number() uint64 {
	var n uint64
	for _, b := range h.Hash[:6] {
		n = n<<8 | uint64(b)
	}
	return n
}

// Open opens the log at path and creates it with mode 0600 if it does not exist;
// its directory must exist. A last line that a crash left incomplete is removed,
// which is itself recorded. The error wraps ErrBroken if the last whole line does
// not belong to a chain.
func Open(path string) (*Log, error) {
	l := &Log{path: path, max: maxFile, now: time.Now}
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := filelock.Lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer unlock()
	if err := l.openLocked(); err != nil {
		return nil, err
	}
	return l, nil
}

// Append writes e to disk. On error nothing was logged, and the action should not
// be done.
func (l *Log) Append(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.appendLocked(e)
	if err != nil {
		l.failures.Add(1)
	}
	return err
}

func (l *Log) appendLocked(e Event) error {
	unlock, err := filelock.Lock(l.path + ".lock")
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer unlock()
	if l.movedLocked() {
		if err := l.openLocked(); err != nil {
			return err
		}
	}
	if l.size >= l.max {
		if err := l.rotateLocked(); err != nil {
			return err
		}
	}
	return l.writeLocked(e)
}

// movedLocked reports whether the file is not as this Log left it: another
// process appended to it or rotated it.
func (l *Log) movedLocked() bool {
	if l.f == nil {
		return true
	}
	own, err := l.f.Stat()
	if err != nil || own.Size() != l.size {
		return true
	}
	there, err := os.Stat(l.path)
	return err != nil || !os.SameFile(own, there)
}

// openLocked opens the file and finds its end.
func (l *Log) openLocked() (err error) {
	l.closeLocked()
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if m := st.Mode(); !m.IsRegular() || m.Perm()&0o022 != 0 {
		return fmt.Errorf("audit: %s must be a regular file that only its owner can write (mode %v, want 0600)", l.path, m)
	}
	end, err := findEnd(f, st.Size())
	if err != nil {
		return fmt.Errorf("%w (file %s): keep it as evidence under another name and start again", err, l.path)
	}
	if end.size == 0 {
		if end.head, err = archived(l.path); err != nil {
			return err
		}
	}
	if end.size != st.Size() {
		if err := f.Truncate(end.size); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	if err := atomicfile.SyncDir(filepath.Dir(l.path)); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	l.f, l.size, l.head = f, end.size, end.head
	if end.partial == nil {
		return nil
	}
	return l.writeLocked(end.repair())
}

func (l *Log) closeLocked() {
	if l.f != nil {
		l.f.Close()
		l.f = nil
	}
}

// rotateLocked renames the file and continues in a new one.
func (l *Log) rotateLocked() error {
	archive := archiveName(l.path, l.head.Seq)
	if err := os.Rename(l.path, archive); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := l.openLocked(); err != nil {
		return err
	}
	return l.writeLocked(Event{Actor: "system", Verb: "audit:rotate", Object: filepath.Base(archive), Result: OK})
}

// writeLocked appends one line and waits until it is on disk. A partly written
// line is removed, here or by the next openLocked.
func (l *Log) writeLocked(e Event) error {
	if e.Time.IsZero() {
		e.Time = l.now()
	}
	line, head, err := encode(e, l.head)
	if err != nil {
		return err
	}
	_, err = l.f.Write(line)
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		l.f.Truncate(l.size)
		l.closeLocked()
		return fmt.Errorf("audit: %w", err)
	}
	l.size, l.head = l.size+int64(len(line)), head
	return nil
}

// Head returns the end of the chain as this Log last saw it.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Failures returns how many events could not be logged.
func (l *Log) Failures() uint64 { return l.failures.Load() }

// Path returns the file's name.
func (l *Log) Path() string { return l.path }

// Close closes the file. A later Append opens it again.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
	return nil
}

// Copy writes the last lines of the file to w: about n bytes, whole lines only.
func (l *Log) Copy(w io.Writer, n int64) error {
	f, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	return copyTail(w, f, n)
}
