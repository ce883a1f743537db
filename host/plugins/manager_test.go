package plugins

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/plugstore"
	shipped "github.com/kvasir-router/kvasir/plugins"
)

// fixed are rules that never change by themselves.
type fixed struct{ set *Set }

// Current implements Rules.
func (f fixed) Current() (*Set, uint64, func()) { return f.set, 1, func() {} }

// Apply implements Rules.
func (f fixed) Apply(*Change) (*Set, uint64, error) { return f.set, 1, nil }

// live are rules of one configuration, planned again for each change.
type live struct {
	m   *Manager
	cfg *config.Config
	set *Set
}

// Current implements Rules.
func (l *live) Current() (*Set, uint64, func()) { return l.set, 1, func() {} }

// Apply implements Rules.
func (l *live) Apply(c *Change) (*Set, uint64, error) {
	next, err := l.m.Plan(l.cfg, l.set, c)
	if err != nil {
		return nil, 0, err
	}
	if err := c.Commit(); err != nil {
		next.Release()
		return nil, 0, err
	}
	l.set.Release()
	l.set = next
	return next, 1, nil
}

// startManager returns a manager with one profile that scores by plugin mine.
func startManager(t *testing.T, opt Options) (*Manager, *live) {
	t.Helper()
	rules := &live{cfg: &config.Config{Plugins: []config.Plugin{{Name: "mine"}},
		Profiles: []config.Profile{{Picker: config.Builtin, Scorers: []config.Scorer{{Plugin: "mine", Weight: 1}}}}}}
	opt.StateDir, opt.Log, opt.Now, opt.Endpoints, opt.Rules = t.TempDir(), slog.New(slog.DiscardHandler), time.Now,
		endpoint.NewStore(), rules
	opt.Failed = func(error) {}
	m, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	rules.m = m
	if rules.set, err = m.Plan(rules.cfg, nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rules.set.Release()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, rules
}

func guestCode(t testing.TB, file string) []byte {
	t.Helper()
	code, err := (&guests.Guest{File: file}).Code()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestPush_checked: a router refuses what `kvasir plugin check` refuses, and takes
// what it does not.
func TestPush_checked(t *testing.T) {
	m, _ := startManager(t, Options{})
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		code := guestCode(t, g.File)
		rep, err := plugincheck.Check(t.Context(), code, plugincheck.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Push(t.Context(), "any", code, false, "who")
		if (err == nil) != rep.OK() || err != nil && !errors.Is(err, admin.ErrRefused) {
			t.Errorf("%s: pushed %v, checked:\n%v", g.File, err, rep)
		}
	}
}

// TestPush_config: a module that does not take its configuration is refused by the key of
// the configuration, in a plan and at a push.
func TestPush_config(t *testing.T) {
	m, rules := startManager(t, Options{})
	own, scorer := &rules.cfg.Plugins[0], &rules.cfg.Profiles[0].Scorers[0]
	leastwork, _ := shipped.Code("leastwork")
	const none = `the plugin reads none: its manifest has no role "configure"`
	for _, c := range []struct {
		name        string
		code        []byte
		own, scorer config.JSON
		want        string // "" = accepted
	}{
		{"plugin", guestCode(t, "ok"), `{"a":1}`, "", "plugins[0].config: wasm: configure: config: " + none},
		{"scorer", guestCode(t, "ok"), "", `{"a":1}`, "profiles[0].scorers[0].config: wasm: configure: config: " + none},
		{"schema", leastwork, "", `{"objective":"fast"}`,
			"profiles[0].scorers[0].config: wasm: configure: config.objective: "},
		{"taken", leastwork, `{"objective":"ttft"}`, "", ""}, {"empty", guestCode(t, "ok"), `{}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			own.Config, scorer.Config = c.own, c.scorer
			_, err := m.Push(t.Context(), "mine", c.code, false, "who")
			refused(t, "push", err, c.want)
			if _, err = m.Shadow(t.Context(), "mine", c.code, "who"); rules.set.scored != nil {
				refused(t, "shadow", err, c.want)
			}
			file := filepath.Join(t.TempDir(), "mine.wasm")
			if err := os.WriteFile(file, c.code, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := *rules.cfg
			cfg.Plugins = []config.Plugin{{Name: "mine", File: file, Config: c.own}}
			set, err := m.Plan(&cfg, rules.set, nil)
			refused(t, "plan", err, c.want)
			if err == nil {
				set.Release()
			}
		})
	}
}

// refused checks an error: "" = there is none.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// TestRollback_quarantined: a rollback passes over a version that went into
// quarantine, and is refused with the reason where there is no other.
func TestRollback_quarantined(t *testing.T) {
	m, rules := startManager(t, Options{})
	push := func(code []byte) (digest string) {
		t.Helper()
		v, err := m.Push(t.Context(), "mine", code, true, "who")
		if err != nil {
			t.Fatal(err)
		}
		return v.Digest
	}
	good, err := shipped.Code("prefixfirst")
	if err != nil {
		t.Fatal(err)
	}
	first := push(good)
	push(guestCode(t, "drift"))
	b := fill(t, 3)
	scorer := rules.set.profiles[0].Scorers[0].Scorer
	// On a busy machine the slow calls may run out of fuel before they are too slow.
	quarantined := false
	for range 20_000 {
		if err := scorer.Score(b); err != nil && strings.Contains(err.Error(), "quarantined: ") {
			quarantined = true
			break
		}
	}
	if !quarantined {
		t.Fatal("not in quarantine")
	}
	m.table.runtime.Maintain(t.Context(), time.Now())
	third := push(append(good, 0, 3, 1, 'n', 'n'))
	v, err := m.Rollback(t.Context(), "mine")
	if err != nil || v.Digest != first {
		t.Errorf("back from %.8s: got %v, %v, want %.8s", third, v, err, first)
	}

	alone, _ := startManager(t, Options{})
	m = alone
	bad := push(guestCode(t, "drift"))
	now := push(good)
	m.quarantined(bad, "it was too slow")
	if v, err := m.Rollback(t.Context(), "mine"); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), bad[:12]+": it was too slow") {
		t.Errorf("back to the bad one: got %v, %v", v, err)
	}
	if digest, _, _ := m.store.Active("mine"); digest != now {
		t.Errorf("after the refusal %.8s is active, want %.8s", digest, now)
	}
	m.quarantined(bad, "")
	if v, err := m.Rollback(t.Context(), "mine"); err != nil || v.Digest != bad {
		t.Errorf("after it has recovered: got %v, %v", v, err)
	}
}

// TestPush_busy: while a module of a pusher is tried another of the same one is
// refused, and that of another one is not; a trial ends with its time.
func TestPush_busy(t *testing.T) {
	m, _ := startManager(t, Options{})
	end, err := m.trials.begin("one")
	if err != nil {
		t.Fatal(err)
	}
	good := guestCode(t, "ok")
	if _, err := m.Push(t.Context(), "mine", good, false, "one"); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), errBusy.Error()) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := m.Push(t.Context(), "mine", good, false, "two"); err != nil {
		t.Errorf("of another pusher: %v", err)
	}
	end()
	if _, err := m.Push(t.Context(), "mine", good, false, "one"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Push(ctx, "mine", append(good, 0, 2, 1, 'n'), false, "one"); !errors.Is(err, admin.ErrRefused) {
		t.Errorf("after its time: %v", err)
	}
}

// TestPush_room: what a pusher stores is bounded; the versions that are in use or
// would be after a rollback stay, and the refusal names the bound.
func TestPush_room(t *testing.T) {
	good, err := shipped.Code("prefixfirst")
	if err != nil {
		t.Fatal(err)
	}
	m, _ := startManager(t, Options{})
	m.store.SetLimits(plugstore.Limits{PusherBytes: int64(3*len(good) + 100)})
	var digests []string
	for i := range 6 {
		v, err := m.Push(t.Context(), "mine", append(good[:len(good):len(good)], 0, 3, 1, 'n', byte('a'+i)), i < 2, "one")
		if err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
		digests = append(digests, v.Digest)
	}
	list, err := m.store.List()
	if err != nil || len(list) != 1 || len(list[0].Versions) != 3 || list[0].Active != digests[1] ||
		list[0].Previous != digests[0] || list[0].Versions[2].Digest != digests[5] {
		t.Errorf("stored %+v, %v", list, err)
	}
	for i, who := range []string{"one", "two"} {
		_, err := m.Push(t.Context(), "other", append(good[:len(good):len(good)], make([]byte, 0)...), i == 0, who)
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	if _, err := m.Push(t.Context(), "third", append(good[:len(good):len(good)], 0, 3, 1, 'n', 'z'), true,
		"one"); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "plugin_store.pusher_bytes") {
		t.Errorf("above the bound: %v", err)
	}
}
