package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// fake is a host with fixed responses.
type fake struct {
	ready   error
	reload  error
	lastDry DryRun
}

func (f *fake) Explain(_ context.Context, q *ExplainRequest) (*scheduler.Explanation, string, error) {
	tenant, id := q.Tenant, q.ID
	owner := cmp.Or(tenant, "acme")
	switch id {
	case "known":
		if owner == "acme" {
			x := &scheduler.Explanation{RequestID: id, Tenant: owner}
			if q.Counterfactual {
				x.Counterfactual = []scheduler.Alternative{{Name: "other"}}
			}
			return x, owner, nil
		}
	case "shared":
		if tenant == "" {
			return nil, "", &AmbiguousError{id, []string{"acme", "globex"}}
		}
		return &scheduler.Explanation{Tenant: tenant}, owner, nil
	case "panic":
		panic("boom")
	case "unrenderable":
		return &scheduler.Explanation{Candidates: []scheduler.Candidate{{Total: float32(math.NaN())}}}, "", nil
	}
	return nil, "", fmt.Errorf("%w: request %q is not among those kept", ErrNotFound, id)
}

func (f *fake) DryRun(_ context.Context, q *DryRun) (*scheduler.Explanation, error) {
	f.lastDry = DryRun{q.Tenant, q.User, q.Path, append([]byte(nil), q.Body...)}
	return &scheduler.Explanation{Tokens: len(q.Body)}, nil
}

func (f *fake) Ready() error { return f.ready }
func (f *fake) Status(context.Context) (*RouterStatus, error) {
	return nil, errors.New("index: broken")
}
func (f *fake) Endpoints(context.Context) ([]Endpoint, error) { return []Endpoint{{URL: "a"}}, nil }
func (f *fake) Reload(context.Context) (*ReloadResult, error) {
	return &ReloadResult{Revision: 2, Changed: []string{}}, f.reload
}

func (f *fake) Plugins(context.Context) ([]Plugin, error) { return []Plugin{{Name: "p"}}, nil }
func (f *fake) Push(_ context.Context, name string, code []byte, activate bool, _ string) (*PluginChange, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: no name", ErrRefused)
	}
	return &PluginChange{Name: name, Note: fmt.Sprint(len(code)), Active: activate}, nil
}
func (f *fake) Shadow(_ context.Context, name string, code []byte, _ string) (*PluginChange, error) {
	return &PluginChange{Name: name, Note: fmt.Sprint(len(code)), Shadow: true}, nil
}
func (f *fake) EndShadow(_ context.Context, name string) (*PluginChange, error) {
	return nil, fmt.Errorf("%w: shadow of %s", ErrNotFound, name)
}
func (f *fake) Activate(_ context.Context, name, digest string) (*PluginChange, error) {
	return &PluginChange{Name: name, Digest: digest}, nil
}
func (f *fake) Rollback(_ context.Context, name string) (*PluginChange, error) {
	return nil, fmt.Errorf("%w: plugin %s", ErrNotFound, name)
}
func (f *fake) Deactivate(_ context.Context, name string) (*PluginChange, error) {
	return &PluginChange{Name: "no " + name}, nil
}

var metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "kvasir_up 1\n") })

// start serves cfg on a port of its own until the test ends and returns its URL.
func start(t *testing.T, cfg Config) string {
	t.Helper()
	cfg.Token = token
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, s.Serve)
}

func run(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
			t.Error("listener is still open")
		}
	})
	return "http://" + l.Addr().String()
}

// request does one request and returns status, headers and body.
func request(t *testing.T, method, url, auth, host, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// people is principals by credential.
type people map[string]*identity.Principal

func (m people) Verify(c *identity.Credentials) (*identity.Principal, error) {
	p := m[strings.TrimPrefix(string(c.Authorization), "Bearer ")]
	switch {
	case string(c.Authorization) == "Bearer flood":
		return nil, identity.ErrTooManyFailures
	case p == nil:
		return nil, identity.ErrUnknownKey
	case !c.Remote.IsLoopback():
		return nil, fmt.Errorf("remote is %v", c.Remote)
	}
	return p, nil
}

// tape is an audit log in memory.
type tape struct {
	mu     sync.Mutex // guards the fields below
	events []audit.Event
	err    error
}

func (a *tape) Append(e audit.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	detail := map[string]string{}
	for k, v := range e.Detail {
		detail[k] = v
	}
	e.Detail = detail
	a.events = append(a.events, e)
	return nil
}

// take returns the events since the last take, as "actor verb object result".
func (a *tape) take() (list []string, details []map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		list = append(list, strings.Join([]string{e.Actor, e.Verb, e.Object, e.Result}, " "))
		details = append(details, e.Detail)
	}
	a.events = nil
	return list, details
}

// keyring is keys in memory.
type keyring struct{ asked []KeyRequest }

// pasted is the whole key whose id is k2345672, and foreign one of another form
// that no record has.
const (
	secretPart = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"
	pasted     = "kv_k2345672_" + secretPart
	foreign    = "an-imported-key-of-another-form"
)

func (k *keyring) records() []identity.Record {
	return []identity.Record{
		{ID: "k1", Grant: identity.Grant{Tenant: "acme"}, Note: "shared name"},
		{ID: "k2345672", Grant: identity.Grant{Tenant: "acme"}},
		{ID: "powerful", Grant: identity.Grant{Tenant: "acme", Scopes: []string{"plugin:*"}}},
		{ID: "other", Grant: identity.Grant{Tenant: "globex"}, Note: "shared name"},
		{ID: "twin", Grant: identity.Grant{Tenant: "globex"}, Note: "shared name"},
	}
}

func (k *keyring) Keys(context.Context) ([]identity.Record, error) { return k.records(), nil }
func (k *keyring) Match(_ context.Context, ref string) ([]identity.Record, error) {
	return identity.Match(k.records(), ref, nil, time.Unix(0, 0)), nil
}
func (k *keyring) Issue(_ context.Context, q *KeyRequest) (IssuedKey, error) {
	k.asked = append(k.asked, *q)
	return IssuedKey{ID: "new", Key: pasted, Tenant: q.Tenant}, nil
}
func (k *keyring) Rotate(_ context.Context, id string, grace time.Duration, issuer string) (IssuedKey, error) {
	return IssuedKey{ID: "next", Key: pasted, Tenant: issuer, Old: id}, nil
}
func (k *keyring) Revoke(_ context.Context, id string) (RevokedKey, error) {
	return RevokedKey{ID: id, State: "revoked"}, nil
}

// rules is a policy source that does nothing.
type rules struct{}

func (rules) Policy(context.Context) (*PolicyStatus, error) { return &PolicyStatus{Engine: "opa"}, nil }
func (rules) ReloadPolicy(context.Context, bool) (*PolicyStatus, error) {
	return &PolicyStatus{Source: "directory", Revision: "r1", RulesRevision: 3}, nil
}
func (rules) PushPolicy(_ context.Context, files map[string][]byte, force bool) (*PolicyStatus, error) {
	return &PolicyStatus{Source: fmt.Sprint("pushed ", strings.Join(slices.Collect(maps.Keys(files)), " "), " ",
		force)}, nil
}
func (rules) PolicyDiff(context.Context, map[string][]byte) (*policy.Diff, error) {
	return &policy.Diff{Compared: 7}, nil
}
func (rules) PolicyExplain(_ context.Context, input []byte) (*policy.Explanation, error) {
	return &policy.Explanation{Revision: string(input)}, nil
}

// machines is a fleet of one endpoint.
type machines struct{}

func (machines) Autoscale(context.Context) ([]autoscale.Status, error) {
	return []autoscale.Status{{Desired: 2}}, nil
}
func (machines) Notice(_ context.Context, n *Notice) (*Notice, error) { return n, nil }
func (machines) Hold(_ context.Context, url, verb string) (*HoldResult, error) {
	return &HoldResult{Endpoint: url, Held: verb, Pools: 1}, nil
}
func (machines) Locality(context.Context) (*Locality, error) {
	return &Locality{Weight: 1, Models: []ModelLocality{}}, nil
}
func (machines) SetLocality(_ context.Context, q *LocalityRequest) (*Locality, error) {
	return &Locality{Weight: q.Weight, Until: q.Until, Models: []ModelLocality{}}, nil
}

func key(id, tenant string, scopes ...string) *identity.Principal {
	return &identity.Principal{Tenant: tenant, Method: identity.MethodAPIKey, KeyID: id, Scopes: scopes}
}

// site is a server with people, keys and an audit log.
type site struct {
	*Server
	url  string
	who  people
	tape *tape
	keys *keyring
}

func newSite(t *testing.T, a Authorizer) *site {
	t.Helper()
	h := &fake{}
	s := &site{who: people{}, tape: &tape{}, keys: &keyring{}}
	var err error
	s.Server, err = New(Config{Token: token, Explainer: h, Status: h, Reloader: h, Plugins: h, Keys: s.keys,
		Policies: rules{}, Scaler: machines{}, Holder: machines{}, Metrics: metrics, Identity: s.who, Audit: s.tape,
		Authorizer: a})
	if err != nil {
		t.Fatal(err)
	}
	s.url = run(t, s.Serve)
	return s
}

func (s *site) call(t *testing.T, who, method, path, body string) (int, string) {
	t.Helper()
	status, _, text := request(t, method, s.url+path, "Bearer "+who, "", body)
	return status, text
}

// scopedRoutes are the routes that take a credential.
func scopedRoutes() (out []*Route) {
	for _, rt := range Routes() {
		if rt.Scope != "" {
			out = append(out, rt)
		}
	}
	return out
}

// requests has one request for each route.
func requests() map[string][2]string {
	out := map[string][2]string{}
	for _, rt := range scopedRoutes() {
		path := strings.NewReplacer("{id...}", "known", "{name}", "x", "{id}", "k1").Replace(rt.Path)
		switch rt.pattern() {
		case "POST /v1/explain":
			path += "?tenant=acme"
		case "POST /v1/keys/{id}/rotate":
			path += "?grace=1h"
		case "GET /debug/pprof/profile":
			path += "?seconds=1" // it takes whole ones only
		case "GET /debug/pprof/trace":
			path += "?seconds=0.01"
		}
		out[rt.pattern()] = [2]string{rt.Method, path}
	}
	return out
}
