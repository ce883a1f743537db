package host

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

// policyEvery is how often the policy's directories are looked at. What two
// looks in a row find is put in force, so that no half of an edit is taken: an
// edit counts within twice this and its time of loading. A look costs a stat call
// for each file, and the pause grows with what it takes.
const policyEvery = 200 * time.Millisecond

// policyLook is what was seen of the policy's directories.
type policyLook struct {
	stats [sha256.Size]byte // of names, sizes and times
	text  string            // of the contents, or of the error of reading them
}

// policyWatch looks at directories. It is used by one goroutine.
type policyWatch struct {
	last    policyLook
	tried   string // contents that were tried
	dirs    string
	pending bool
}

// watch puts in force what is saved in the policy's directories until ctx ends.
func (p *policies) watch(ctx context.Context) error {
	var w policyWatch
	pause := policyEvery
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		pause = max(policyEvery, 50*p.look(&w))
		t.Reset(min(pause, 10*policyEvery))
	}
}

// look tries what stands in the directories if it is new and does not change. It
// returns what looking took, without the trying: that is paid once an edit, and a
// second edit must not wait for it.
func (p *policies) look(w *policyWatch) (took time.Duration) {
	begun := time.Now()
	if p.changed(w) {
		took = time.Since(begun)
		g, err := p.reload("file changed", false) // which logs and counts its error
		p.h.notePolicy(g, err, "file changed")
		return took
	}
	return time.Since(begun)
}

// changed reports whether something new stands in the directories that does not
// change.
func (p *policies) changed(w *policyWatch) bool {
	l := p.h.rules.Acquire()
	c := l.Value().cfg.Policy
	current := l.Value().policy
	l.Release()
	if c.Dir == "" {
		return false
	}
	if dirs := fmt.Sprintf("%q %q", c.Dir, c.DataDir); dirs != w.dirs {
		*w = policyWatch{dirs: dirs}
		if w.tried = p.over(); w.tried == "" && current != nil {
			w.tried = contents(current.Source(), nil)
		}
	}
	stats, fresh := statFiles(time.Now(), c.Dir, c.DataDir)
	if stats == w.last.stats && !fresh && !w.pending {
		return false
	}
	now := policyLook{stats, contents(policy.ReadDir(c.Dir, c.DataDir))}
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

// notePolicy records what came of a policy that nobody in particular asked for.
func (h *Host) notePolicy(g *generation, err error, cause string) {
	detail := []string{"cause", cause}
	if g != nil && g.policy != nil {
		detail = append(detail, "revision", g.policy.Revision(), "generation", strconv.FormatUint(g.number, 10))
	}
	if err != nil {
		if text := err.Error(); len(text) > maxNoted {
			err = errors.New(text[:maxNoted] + "…")
		}
	}
	h.note(admin.ScopePolicyActivate, "policy", err, detail...)
}

// maxNoted bounds the faults of one policy in the audit log; GET /v1/policy has
// them all.
const maxNoted = 2000

// contents names what was read, or why nothing could be.
func contents(src *policy.Source, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	rules, data := src.Digest()
	return rules + data
}

// statFiles returns a digest of the names, sizes and times of the files below
// dirs, and whether one changed so lately that another change could hide behind
// the same time.
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
			if err == nil && st.Mode()&fs.ModeSymlink != 0 { // both may change
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
