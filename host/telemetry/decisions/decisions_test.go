package decisions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// masks is testdata/mask.json: what upstream OPA logged (mask.py).
type masks struct {
	Input, Result any
	Cases         map[string]struct {
		Rules          []any
		Keys           []string
		Input, Result  any
		Erased, Masked []string
		Path           string
	}
}

// fixed is a policy with a fixed document and a fixed mask.
type fixed struct {
	doc   map[string]any
	rules []any
	err   error
}

func (f *fixed) Document(*policy.Input) (map[string]any, error) { return f.doc, nil }
func (f *fixed) Mask(map[string]any) ([]any, error)             { return f.rules, f.err }

func newLog(t testing.TB, cfg Config) *Log {
	t.Helper()
	if cfg.File == "" {
		cfg.File = filepath.Join(t.TempDir(), "decisions.log")
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// clone returns v encoded as JSON and decoded again.
func clone[T any](t testing.TB, v any) (out T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMask_upstream masks as upstream OPA does.
func TestMask_upstream(t *testing.T) {
	b, err := os.ReadFile("testdata/mask.json")
	if err != nil {
		t.Fatal(err)
	}
	var x masks
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, Config{})
	for name, c := range x.Cases {
		if strings.HasPrefix(name, "escaped ") {
			continue // upstream does not read the escapes of JSON pointers; labels here may hold a slash
		}
		m := map[string]any{"input": clone[any](t, x.Input), "result": clone[any](t, x.Result)}
		l.mask(&Entry{Policy: &fixed{rules: c.Rules}}, m)
		want := map[string]any{}
		for _, k := range c.Keys {
			switch k {
			case "input":
				want[k] = c.Input
			case "result":
				want[k] = c.Result
			case "erased":
				want[k] = c.Erased
			case "masked":
				want[k] = c.Masked
			}
		}
		if got := clone[any](t, m); !reflect.DeepEqual(got, clone[any](t, want)) {
			t.Errorf("%s: got\n%v\nwant\n%v", name, got, clone[any](t, want))
		}
	}
	if len(x.Cases) < 20 {
		t.Errorf("%d cases only", len(x.Cases))
	}
}

func TestMask(t *testing.T) {
	l := newLog(t, Config{Mask: []string{"/input/user", "/input/labels/a~1b"}})
	event := func() map[string]any {
		return map[string]any{"input": map[string]any{"user": "u", "x": 1, "labels": map[string]any{"a/b": 1}},
			"result": map[string]any{"allow": true}, "tenant": "acme"}
	}
	m := event()
	l.mask(&Entry{}, m)
	if got := fmt.Sprint(m["input"], m["erased"]); got != "map[labels:map[] x:1] [/input/labels/a~1b /input/user]" {
		t.Errorf("configured: got %s", got)
	}
	for _, f := range []*fixed{{err: errors.New("boom")}, {rules: []any{5}}, {rules: []any{"/tenant"}},
		{rules: []any{"input/user"}}, {rules: []any{"/inputs"}},
		{rules: []any{map[string]any{"op": "move", "path": "/input"}}}} {
		m := event()
		l.mask(&Entry{Policy: f}, m)
		if m["input"] != nil || m["result"] != nil || m["mask_error"] == nil ||
			fmt.Sprint(m["erased"]) != "[/input /result]" || m["tenant"] != "acme" {
			t.Errorf("%+v: got %v", f, m)
		}
	}
	if err := CheckMask([]string{"/input/a", "/result"}); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"", "/", "input", "/tenant", "/inputs/x", "/labels"} {
		if CheckMask([]string{p}) == nil {
			t.Errorf("%q is accepted", p)
		}
	}
}

func full() *Entry {
	return &Entry{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), RequestID: "req-1", Tenant: "acme", Cached: true,
		Endpoint: "http://10.0.0.1:8000", Pool: "h100", Kind: "warm",
		Policy: &fixed{doc: map[string]any{"tenant": map[string]any{"id": "acme"}}},
		Input: &policy.Input{Principal: &identity.Principal{Tenant: "acme", User: "u-secret"}, Operation: "chat.completions",
			Model: "m"},
		Decision: &policy.Decision{
			Allow: true, Reason: "allowed", Model: "m2", Constraints: []policy.Constraint{
				{Label: "pool", Values: []string{"h100"}}, {Label: "gpu", NotIn: true, Values: []string{"old"}}},
			Prefer: []policy.Preference{{Label: "zone", Values: []string{"a"}, Weight: 0.5}}, Scope: "tenant",
			Salt: "the-secret-salt", Namespace: "00ff",
			Affinity: policy.Affinity{Weight: 2, MaxShare: 0.5, Sticky: true}, Profile: "fast", Priority: 3, RateClass: "gold",
			MaxPromptTokens: 10, MaxOutputTokens: 20,
			MaxConcurrency: 5, TokensPerMinute: 100, RequestsPerMinute: 7, Audit: "full", Rules: []string{"r1"},
			Revision: "rev-1",
		},
	}
}

// TestEvent compares a whole line, except for its random id.
func TestEvent(t *testing.T) {
	l := newLog(t, Config{Labels: map[string]string{"id": "host-1"}})
	line := func(e *Entry) string {
		b, err := json.Marshal(l.event(e))
		if err != nil {
			t.Fatal(err)
		}
		id := regexp.MustCompile(`"decision_id":"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"`)
		if !id.Match(b) {
			t.Errorf("no id in %s", b)
		}
		return string(id.ReplaceAll(b, []byte(`"decision_id":"ID"`)))
	}
	f := func(what string, e *Entry, want string) {
		t.Helper()
		if got := line(e); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	f("allowed", full(), `{"bundles":{"kvasir":{"revision":"rev-1"}},"cached":true,"decision_id":"ID",`+
		`"endpoint":"http://10.0.0.1:8000","input":{"tenant":{"id":"acme"}},"kind":"warm","labels":{"id":"host-1"},`+
		`"namespace":"00ff","path":"kvasir/decision","pool":"h100","request_id":"req-1",`+
		`"result":{"affinity":{"max_share":0.5,"sticky":true,"weight":2},"allow":true,"audit":"full",`+
		`"cache":{"scope":"tenant"},"constraints":[{"label":"pool","op":"in","values":["h100"]},{"label":"gpu",`+
		`"op":"not_in","values":["old"]}],`+
		`"limits":{"max_concurrency":5,"max_output_tokens":20,"max_prompt_tokens":10,"requests_per_minute":7,`+
		`"tokens_per_minute":100},"model":"m2","prefer":[{"label":"zone","values":["a"],"weight":0.5}],"priority":3,`+
		`"profile":"fast","rate_class":"gold","reason":"allowed"},`+
		`"rule_ids":["r1"],"tenant":"acme","timestamp":"2026-01-02T03:04:05.000000006Z"}`)
	denied := full()
	denied.Decision = &policy.Decision{Status: 403, Reason: "model_denied", Revision: "rev-1", Salt: "x",
		Constraints: []policy.Constraint{{}}}
	denied.Status, denied.Code, denied.Policy, denied.Cached = 403, "denied", nil, false
	f("denied, by the built-in", denied, `{"bundles":{"kvasir":{"revision":"rev-1"}},"cached":false,"decision_id":"ID",`+
		`"input":{"request":{"model":"m"},"tenant":{"id":"acme"}},"labels":{"id":"host-1"},"path":"kvasir/decision",`+
		`"refused":{"code":"denied","status":403},"request_id":"req-1","result":{"allow":false,"reason":"model_denied",`+
		`"status":403},"rule_ids":[],"tenant":"acme","timestamp":"2026-01-02T03:04:05.000000006Z"}`)
	f("no decision", &Entry{RequestID: "r", Tenant: "t", Status: 503, Code: "policy_error", EvaluationFailed: true},
		`{"cached":false,"decision_id":"ID","error":{"code":"policy_error","message":"the policy gave no decision"},`+
			`"labels":{"id":"host-1"},"path":"kvasir/decision","refused":{"code":"policy_error","status":503},`+
			`"request_id":"r","tenant":"t","timestamp":"0001-01-01T00:00:00Z"}`)
	for _, secret := range []string{"the-secret-salt", "u-secret"} {
		if strings.Contains(line(full()), secret) {
			t.Errorf("%s is logged", secret)
		}
	}
}

func TestWanted(t *testing.T) {
	count := func(l *Log, d *policy.Decision, refused bool) (n int) {
		for range 20000 {
			if l.Wanted(d, refused) {
				n++
			}
		}
		return n
	}
	l := newLog(t, Config{SampleAllow: 0.1})
	for what, c := range map[string]struct {
		d        *policy.Decision
		refused  bool
		min, max int
	}{
		"sample":         {&policy.Decision{Allow: true, Audit: "sample"}, false, 1700, 2300},
		"unset":          {&policy.Decision{Allow: true}, false, 1700, 2300},
		"full":           {&policy.Decision{Allow: true, Audit: "full"}, false, 20000, 20000},
		"none":           {&policy.Decision{Allow: true, Audit: "none"}, false, 0, 0},
		"none, denied":   {&policy.Decision{Audit: "none"}, true, 20000, 20000},
		"none, no place": {&policy.Decision{Allow: true, Audit: "none"}, true, 20000, 20000},
		"no decision":    {nil, true, 20000, 20000},
	} {
		if n := count(l, c.d, c.refused); n < c.min || n > c.max {
			t.Errorf("%s: logged %d of 20000, want %d to %d", what, n, c.min, c.max)
		}
	}
	if n := count(newLog(t, Config{}), &policy.Decision{Allow: true}, false); n != 0 {
		t.Errorf("share 0: logged %d", n)
	}
	if n := count(newLog(t, Config{SampleAllow: 1}), &policy.Decision{Allow: true}, false); n != 20000 {
		t.Errorf("share 1: logged %d", n)
	}
}

// run runs l until the function that it returns is called.
func run(t testing.TB, l *Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func lines(t testing.TB, paths ...string) (n int) {
	t.Helper()
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.SplitAfter(b, []byte("\n")) {
			if len(line) > 0 && !json.Valid(line) {
				t.Errorf("%s: %q is no line", p, line)
			} else if len(line) > 0 {
				n++
			}
		}
	}
	return n
}

// TestRun: waiting entries are appended to the file, also when Run ends.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.log")
	if err := os.WriteFile(path, []byte("{\"old\":1}\n{\"torn\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, Config{File: path})
	for range 1000 {
		l.Record(full())
	}
	stop := run(t, l)
	stop()
	if n := lines(t, path); n != 1001 {
		t.Errorf("got %d lines, want 1001", n)
	}
	if st := l.Stats(); st.Written != 1000 || st.Dropped != 0 || st.Waiting != 0 || st.Failing {
		t.Errorf("got %+v", st)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
}

// TestQueue: a full queue drops entries and counts them; reserved places remain.
func TestQueue(t *testing.T) {
	l := newLog(t, Config{Queue: 3})
	if !l.Reserve() {
		t.Fatal("no place in an empty queue")
	}
	for range 5 {
		l.Record(full())
	}
	if l.Reserve() {
		t.Error("a fourth place of three")
	}
	if st := l.Stats(); st.Dropped != 3 || st.Waiting != 3 {
		t.Errorf("got %+v", st)
	}
	l.Commit(full())
	stop := run(t, l)
	stop()
	if l.Stats().Written != 3 || !l.Reserve() {
		t.Errorf("got %+v", l.Stats())
	}
	l.Cancel()
	if st := l.Stats(); st.Waiting != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestFailing: while the file cannot be written, no accepted entry is lost and no
// place is reserved; writing resumes without intervention.
func TestFailing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, Config{File: filepath.Join(dir, "d.log"), Sync: true})
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	run(t, l)
	l.Record(full())
	await := func(what string, f func() bool) {
		t.Helper()
		tick, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
		defer tick.Stop()
		for !f() {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("not within 10s: %s: %+v", what, l.Stats())
			}
		}
	}
	await("it fails", func() bool { return l.Stats().Failing })
	if l.Reserve() {
		t.Error("a place in a log that cannot be written")
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	await("it goes on", func() bool { return l.Stats().Written == 1 && !l.Stats().Failing })
	if !l.Reserve() {
		t.Error("no place")
	}
	l.Cancel()
	if n := lines(t, filepath.Join(dir, "d.log")); n != 1 {
		t.Errorf("got %d lines", n)
	}
}

// TestRotate keeps the configured number of files, each of whole lines, also if
// another program renames the file.
func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.log")
	o := file{path: path, max: 100, keep: 2}
	for i := range 40 {
		if err := o.write(fmt.Appendf(nil, "{\"n\":%d}\n{\"x\":\"0123456789\"}\n", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := o.write([]byte("{\"after\":1}\n")); err != nil {
		t.Fatal(err)
	}
	o.close()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 4 {
		t.Errorf("got %v %v", entries, err)
	}
	for _, name := range []string{path, path + ".1", path + ".2", path + ".away"} {
		lines(t, name)
		if st, err := os.Stat(name); err != nil || st.Size() > 100 {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	if b, _ := os.ReadFile(path); string(b) != "{\"after\":1}\n" {
		t.Errorf("got %q", b)
	}
}

func TestOpen_errors(t *testing.T) {
	_, err := Open(Config{SampleAllow: 2, MaxBytes: -1, Mask: []string{"x"}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("got %v, want four faults", err)
	}
	if _, err := Open(Config{File: t.TempDir()}); err == nil {
		t.Error("a directory was opened")
	}
}

// TestLog_stress: what is recorded is written or dropped, and each line is whole.
func TestLog_stress(t *testing.T) {
	l := newLog(t, Config{Queue: 64, MaxBytes: 200_000, Keep: 100})
	stop := run(t, l)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 300 {
				switch {
				case i%3 > 0:
					l.Record(full())
				case l.Reserve():
					l.Commit(full())
				}
				if l.Reserve() {
					l.Cancel()
				}
			}
		})
	}
	wg.Wait()
	stop()
	names, err := filepath.Glob(l.cfg.File + "*")
	if err != nil {
		t.Fatal(err)
	}
	st := l.Stats()
	if n := lines(t, names...); uint64(n) != st.Written || st.Waiting != 0 || st.Written == 0 ||
		st.Written+st.Dropped > 2400 || st.Written+st.Dropped < 1600 {
		t.Errorf("got %d lines, %+v", n, st)
	}
}

// FuzzMask: any mask changes only input and result, and the values that it removes
// are gone.
func FuzzMask(f *testing.F) {
	f.Add([]byte(`["/input/a/0", {"op":"upsert","path":"/result/x/y","value":[1]}]`))
	f.Add([]byte(`["/input"]`))
	l := &Log{}
	f.Fuzz(func(t *testing.T, b []byte) {
		var rules []any
		if json.Unmarshal(b, &rules) != nil {
			return
		}
		m := map[string]any{"input": map[string]any{"a": []any{1, map[string]any{"b": 2}}},
			"result": map[string]any{"allow": true}, "tenant": "acme"}
		l.mask(&Entry{Policy: &fixed{rules: rules}}, m)
		if m["tenant"] != "acme" {
			t.Fatal("tenant changed")
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		for k := range m {
			switch k {
			case "input", "result", "tenant", "erased", "masked", "mask_error":
			default:
				t.Fatalf("member %q was made", k)
			}
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	l := newLog(b, Config{Queue: 1 << 10})
	e := full()
	b.ReportAllocs()
	for b.Loop() {
		l.Record(e) // the queue is full: the cost of dropping
	}
}
