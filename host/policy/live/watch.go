package live

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/policy"
)

// policyEvery is the polling interval of the policy's directories. Contents are loaded
// when two polls in a row find the same, so that a half-saved edit is not loaded: an
// edit is in force within twice the interval plus its loading time. A poll costs a stat
// call for each file, and the interval grows with the poll's duration.
const policyEvery = 200 * time.Millisecond

// settled is the age of a modification from which equal size and time mean equal
// contents: file systems store times in steps of up to two seconds, and only reading
// reveals a second write within a step.
const settled = 3 * time.Second

// look is the state of the policy's directories at one poll.
type look struct {
	stats [sha256.Size]byte // of names, sizes and times
	text  string            // of the contents, or of the error of reading them
}

// watcher polls the policy's directories. It is used by one goroutine.
type watcher struct {
	k     *Keeper
	rules Rules
	note  NoteFunc

	last    look
	tried   string // contents of the last attempt
	dirs    string
	pending bool
}

// NoteFunc records an action of the router itself in the audit log; detail are
// alternating names and values.
type NoteFunc func(verb, object string, err error, detail ...string)

// Watch puts each edit of the policy's directories in force, until ctx ends.
func (k *Keeper) Watch(ctx context.Context, rules Rules, note NoteFunc) error {
	w := &watcher{k: k, rules: rules, note: note}
	pause := policyEvery
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		pause = max(policyEvery, 50*w.look())
		t.Reset(min(pause, 10*policyEvery))
	}
}

// look polls once and loads a new policy. It returns the duration of polling without
// loading, which happens once per edit and must not delay the next one.
func (w *watcher) look() (took time.Duration) {
	begun := time.Now()
	if !w.changed() {
		return time.Since(begun)
	}
	took = time.Since(begun)
	const cause = "file changed"
	in, err := w.k.reload(w.rules, cause, false) // reload logs and counts its error
	Note(w.note, in, err, cause)
	return took
}

// changed reports whether the directories have new contents that two polls agree on.
func (w *watcher) changed() bool {
	in := w.rules.Policy()
	c := in.Config
	if c.Dir == "" {
		return false
	}
	if dirs := fmt.Sprintf("%q %q", c.Dir, c.DataDir); dirs != w.dirs {
		*w = watcher{k: w.k, rules: w.rules, note: w.note, dirs: dirs}
		if w.tried = w.k.over(); w.tried == "" && in.Snapshot != nil {
			w.tried = contents(in.Snapshot.Source(), nil)
		}
	}
	stats, fresh := statFiles(time.Now(), c.Dir, c.DataDir)
	if stats == w.last.stats && !fresh && !w.pending {
		return false
	}
	now := look{stats, contents(policy.ReadDir(c.Dir, c.DataDir))}
	steady := now.text == w.last.text
	w.last, w.pending = now, false
	if now.text == w.tried {
		return false
	}
	if !steady {
		w.pending = true
		return false
	}
	w.tried = now.text
	return true
}

// Note records the result of loading a policy that no operator requested.
func Note(note NoteFunc, in InForce, err error, cause string) {
	detail := []string{"cause", cause}
	if in.Snapshot != nil && err == nil {
		detail = append(detail, "revision", in.Snapshot.Revision(), "rules", strconv.FormatUint(in.Revision, 10))
	}
	if err != nil {
		if text := err.Error(); len(text) > maxNoted {
			err = errors.New(text[:maxNoted] + "…")
		}
	}
	note(admin.ScopePolicyActivate, "policy", err, detail...)
}

// maxNoted bounds the errors of one policy in the audit log, in bytes; GET /v1/policy
// has them in full.
const maxNoted = 2000

// statFiles returns a digest of the names, sizes and times of the files below dirs, and
// whether one changed so recently that a further change might not show.
func statFiles(now time.Time, dirs ...string) (sum [sha256.Size]byte, fresh bool) {
	s := sha256.New()
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		f := os.DirFS(dir)
		err := fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			st, err := d.Info()
			if err == nil && st.Mode()&fs.ModeSymlink != 0 { // the link and its target may change
				fmt.Fprintf(s, "%d ", st.ModTime().UnixNano())
				if to, e := fs.Stat(f, name); e == nil {
					st = to
				}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(s, "%q %d %d %v;", name, st.Size(), st.ModTime().UnixNano(), st.Mode())
			fresh = fresh || now.Sub(st.ModTime()) < settled
			return nil
		})
		if err != nil {
			fmt.Fprintf(s, "%v;", err)
		}
	}
	s.Sum(sum[:0])
	return sum, fresh
}
