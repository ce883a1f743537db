package live

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// rules are Rules of one policy, without a router.
type rules struct {
	mu       sync.Mutex // guards the fields below
	k        *Keeper
	in       InForce
	disabled []string
	moves    int // how often PutPolicy finds that another policy came into force
}

func (r *rules) Policy() InForce {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in
}

func (r *rules) PutPolicy(load func(base InForce) (*Candidate, error)) (InForce, error) {
	for {
		base := r.Policy()
		c, err := load(base)
		if err != nil {
			return InForce{}, err
		}
		r.mu.Lock()
		if r.moves > 0 {
			r.moves--
			r.mu.Unlock()
			continue
		}
		if r.disabled = nil; c != nil {
			r.in.Snapshot, r.in.Revision = c.Snap(), r.in.Revision+1
		}
		in := r.in
		r.mu.Unlock()
		r.k.Adopted(c, base.Snapshot, in.Revision)
		return in, nil
	}
}

func (r *rules) Disable(tenants []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disabled = tenants
}

// bench is a Keeper with the directory of a policy.
type bench struct {
	t     *testing.T
	cfg   config.Policy
	state string
	now   time.Time
	*Keeper
	rules *rules
}

func newBench(t *testing.T) *bench {
	all := func() *float64 { v := 1.; return &v }
	b := &bench{t: t, state: t.TempDir(), now: time.Unix(1e9, 0)}
	b.cfg = config.Policy{Dir: t.TempDir(), RequiredLabels: &[]string{}, OnError: "deny",
		Gates: config.PolicyGates{AllowToDeny: all(), DenyToAllow: all(), Widened: all(), Errors: all()}}
	b.policy(1, "acme", "globex")
	return b
}

// policy writes a policy of a number that allows enabled tenants.
func (b *bench) policy(number int, enabled ...string) {
	b.t.Helper()
	for name, text := range policyFiles(number, enabled...) {
		b.write(name, string(text))
	}
}

func policyFiles(number int, enabled ...string) map[string][]byte {
	tenants := make([]string, len(enabled))
	for i, name := range enabled {
		tenants[i] = fmt.Sprintf("%q: {\"enabled\": true}", name)
	}
	return map[string][]byte{
		"kvasir/decision.rego": fmt.Appendf(nil, `package kvasir

default decision := {"allow": false, "reason": "number_%d"}

decision := {"allow": true, "cache": {"scope": "tenant"}} if data.tenants[input.tenant.id].enabled
`, number),
		"data/tenants/all.json": []byte("{" + strings.Join(tenants, ", ") + "}"),
	}
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.cfg.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// start makes a Keeper as a process that starts does, and puts its candidate in force.
func (b *bench) start() *Candidate {
	b.t.Helper()
	b.Keeper = New(Options{StateDir: b.state, Key: []byte(strings.Repeat("k", 32)), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time {
			b.now = b.now.Add(time.Millisecond)
			return b.now
		}})
	b.rules = &rules{k: b.Keeper, in: InForce{Config: &b.cfg}}
	c := b.Start(&b.cfg)
	b.rules.in.Snapshot = c.Snap()
	b.Adopted(c, nil, 1)
	return c
}

// is checks the state that operators see: its word, where the policy is from, and what
// it decides about acme, globex and a tenant that is not listed.
func (b *bench) is(what, state, source, decisions string) {
	b.t.Helper()
	st := Admin{Keeper: b.Keeper, Rules: b.rules}.Status()
	if st.State != state || st.Source != source {
		b.t.Errorf("%s: state %q from %q, want %q from %q (%s)", what, st.State, st.Source, state, source,
			st.LastError)
	}
	var got []string
	if s := b.rules.Policy().Snapshot; s != nil {
		for _, tenant := range []string{"acme", "globex", "unlisted"} {
			d, err := s.Decide(ask(tenant))
			switch {
			case err != nil:
				got = append(got, err.Error())
			case d.Allow:
				got = append(got, "yes")
			default:
				got = append(got, strings.TrimPrefix(d.Reason, "number_"))
			}
		}
	}
	if text := strings.Join(got, " "); text != decisions {
		b.t.Errorf("%s: decisions %q, want %q", what, text, decisions)
	}
}

func ask(tenant string) *policy.Input {
	return &policy.Input{Principal: &identity.Principal{Tenant: tenant}, Operation: "models", Model: "m"}
}

func (b *bench) reload(force bool) error {
	_, err := b.Keeper.reload(b.rules, "test", force)
	return err
}

// TestKeeper_directory: a reload puts the directory's policy in force; an invalid one
// leaves the previous policy in force and is reported until it is repaired.
func TestKeeper_directory(t *testing.T) {
	b := newBench(t)
	b.start()
	b.is("at first", "ok", "directory", "yes yes 1")
	b.policy(2, "acme")
	if err := b.reload(false); err != nil {
		t.Fatal(err)
	}
	b.is("after an edit", "ok", "directory", "yes 2 2")
	b.write("kvasir/broken.rego", "package kvasir\n\nx {")
	if err := b.reload(false); err == nil || !strings.Contains(err.Error(), "kvasir/broken.rego:3") {
		t.Errorf("got %v, want an error about the file", err)
	}
	b.now = b.now.Add(time.Minute)
	b.is("with an invalid file", "degraded", "directory", "yes 2 2")
	st := Admin{Keeper: b.Keeper, Rules: b.rules}.Status()
	if st.StaleSeconds < 60 || st.StaleSeconds > 61 || len(st.Faults) == 0 {
		t.Errorf("stale for %v s with faults %v, want 60 s and the fault", st.StaleSeconds, st.Faults)
	}
	b.cfg.MaxStale = config.Duration(time.Second)
	b.is("for longer than allowed", "stale", "directory", "yes 2 2")
	if err := os.Remove(filepath.Join(b.cfg.Dir, "kvasir/broken.rego")); err != nil {
		t.Fatal(err)
	}
	loads := b.loads.Load()
	if err := b.reload(false); err != nil || b.loads.Load() != loads {
		t.Errorf("the edit was undone: got %v, %d loads, want %d", err, b.loads.Load(), loads)
	}
	b.is("the edit was undone", "ok", "directory", "yes 2 2")
}

// TestKeeper_pushed: a pushed policy stays in force, across a restart too, until the
// directory changes or an operator asks for it.
func TestKeeper_pushed(t *testing.T) {
	push := func(b *bench, number int, enabled ...string) error {
		_, err := Admin{Keeper: b.Keeper, Rules: b.rules}.PushPolicy(t.Context(), policyFiles(number, enabled...), false)
		return err
	}
	b := newBench(t)
	b.start()
	b.rules.moves = 2 // another policy comes into force meanwhile
	if err := push(b, 5, "globex"); err != nil {
		t.Fatal(err)
	}
	b.is("after a push", "ok", "pushed", "5 yes 5")
	if c, err := b.FromDir(&b.cfg, b.rules.Policy(), false, false); c != nil || err != nil {
		t.Errorf("an unchanged directory: got %v, %v", c, err)
	}
	b.start()
	b.is("after a restart", "ok", "pushed", "5 yes 5")
	if got := b.Withdrawn(&b.cfg, b.rules.Policy(), false); got != nil {
		t.Errorf("an unchanged directory withdraws %v", got)
	}
	b.policy(6, "acme")
	if c, err := b.FromDir(&b.cfg, b.rules.Policy(), false, false); err != nil || c == nil {
		t.Errorf("a changed directory: got %v, %v", c, err)
	}
	b.start()
	b.is("after an edit and a restart", "ok", "directory", "yes 6 6")
	if err := push(b, 7); err != nil {
		t.Fatal(err)
	}
	if err := b.reload(false); err != nil {
		t.Fatal(err)
	}
	b.is("asked for the directory", "ok", "directory", "yes 6 6")
	if err := push(b, 8, "acme"); err != nil || b.reload(false) != nil {
		t.Fatal(err)
	}
	bad := map[string][]byte{"kvasir/decision.rego": []byte("package kvasir\n\nx {")}
	if _, err := (Admin{Keeper: b.Keeper, Rules: b.rules}).PushPolicy(t.Context(), bad, true); err == nil {
		t.Error("an invalid policy was pushed")
	}
	b.is("after an invalid push", "degraded", "directory", "yes 6 6")
}

// TestKeeper_lastGood: if the directory is invalid at a start, the last policy that was
// in force decides; without one there is none.
func TestKeeper_lastGood(t *testing.T) {
	b := newBench(t)
	b.start()
	b.write("kvasir/broken.rego", "package kvasir\n\nx {")
	if c := b.start(); c.from != fromLastGood {
		t.Errorf("the policy is from %q", c.from)
	}
	b.is("with an invalid directory", "degraded", "last_good", "yes yes 1")
	if err := os.WriteFile(filepath.Join(b.state, lastGoodFile), []byte("forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.is("with a last good policy of another key", "unloaded", "", "")
	b.state = t.TempDir()
	b.start()
	b.is("without a last good policy", "unloaded", "", "")
	e, err := b.Engine(&b.cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := e.Decide(ask("acme")); !errors.Is(err, policy.ErrNotLoaded) {
		t.Errorf("got %+v, %v, want ErrNotLoaded", d, err)
	}
	if err := os.Remove(filepath.Join(b.cfg.Dir, "kvasir/broken.rego")); err != nil {
		t.Fatal(err)
	}
	if err := b.reload(false); err != nil {
		t.Fatal(err)
	}
	b.is("repaired", "ok", "directory", "yes yes 1")
}

// TestKeeper_gates: a policy that changes more live decisions than the gates allow is
// refused, unless it is forced; the comparison is kept.
func TestKeeper_gates(t *testing.T) {
	b := newBench(t)
	b.start()
	b.is("at first", "ok", "directory", "yes yes 1") // decisions that are compared
	share := 0.2
	b.cfg.Gates.AllowToDeny = &share
	b.policy(2, "globex")
	if err := b.reload(false); err == nil || !strings.Contains(err.Error(), "allow") {
		t.Errorf("got %v, want a refusal by the gate", err)
	}
	b.is("refused", "degraded", "directory", "yes yes 1")
	if d := (Admin{Keeper: b.Keeper, Rules: b.rules}).Status().Diff; d == nil || d.AllowToDeny != 1 {
		t.Errorf("comparison %+v, want one allow that becomes a denial", d)
	}
	if err := b.reload(true); err != nil {
		t.Fatal(err)
	}
	b.is("forced", "ok", "directory", "2 yes 2")
}

// TestKeeper_withdrawn: tenants that the directory disables or no longer has are refused
// whatever else is wrong there; a file that cannot be read withdraws none that it may
// have.
func TestKeeper_withdrawn(t *testing.T) {
	b := newBench(t)
	b.start()
	f := func(what, file string, want ...string) {
		t.Helper()
		b.write("data/tenants/all.json", file)
		if got := b.Withdrawn(&b.cfg, b.rules.Policy(), true); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	f("as it is in force", `{"acme": {"enabled": true}, "globex": {"enabled": true}}`)
	f("one disabled", `{"acme": {"enabled": false}, "globex": {"enabled": true}}`, "acme")
	f("one missing", `{"globex": {"enabled": true}}`, "acme")
	f("one malformed", `{"globex": {"enabled": false}, "acme": {"enabled": 1}}`, "globex")
	f("no JSON", `{"globex": `)
	f("one more", `{"acme": {"enabled": true}, "globex": {"enabled": true}, "initech": {"enabled": true}}`)

	b.write("kvasir/broken.rego", "package kvasir\n\nx {")
	b.write("data/tenants/all.json", `{"globex": {"enabled": true}}`)
	if err := b.reload(false); err == nil {
		t.Error("an invalid policy was accepted")
	}
	if got := b.rules.disabled; !slices.Equal(got, []string{"acme"}) {
		t.Errorf("a refused policy disables %v, want acme", got)
	}
	if got := b.Withdrawn(&b.cfg, InForce{Config: &b.cfg}, true); got != nil {
		t.Errorf("without a policy: %v", got)
	}
}

// TestWatcher: an edit is loaded once, when two polls find the same contents.
func TestWatcher(t *testing.T) {
	b := newBench(t)
	b.start()
	var notes []string
	w := &watcher{k: b.Keeper, rules: b.rules, note: func(verb, object string, err error, detail ...string) {
		notes = append(notes, fmt.Sprintf("%s %s %t %s", verb, object, err == nil, strings.Join(detail[:2], "=")))
	}}
	looks := func(n int, want ...string) {
		t.Helper()
		notes = nil
		for range n {
			w.look()
		}
		if !slices.Equal(notes, want) {
			t.Errorf("audited %q, want %q", notes, want)
		}
	}
	const taken = "policy:activate policy true cause=file changed"
	const refused = "policy:activate policy false cause=file changed"
	looks(3)
	b.policy(2, "acme")
	looks(1)
	b.policy(3, "acme") // still being edited
	looks(1)
	b.is("while it is edited", "ok", "directory", "yes yes 1")
	looks(3, taken)
	b.is("after the edit", "ok", "directory", "yes 3 3")
	b.write("kvasir/broken.rego", "package kvasir\n\nx {")
	looks(4, refused)
	b.is("with an invalid file", "degraded", "directory", "yes 3 3")
	if err := os.Remove(filepath.Join(b.cfg.Dir, "kvasir/broken.rego")); err != nil {
		t.Fatal(err)
	}
	looks(4, taken)
	b.is("undone", "ok", "directory", "yes 3 3")
	other := t.TempDir()
	b.cfg.Dir = other
	b.policy(4)
	looks(4, taken)
	b.is("another directory", "ok", "directory", "4 4 4")
}
