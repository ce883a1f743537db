package host

import (
	"context"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/statedir"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/plugins"
)

// Kinds of faults of a file.
const (
	sound   = iota
	garbage // the syntax is invalid
	partly  // one part is wrong, the others are valid
	kinds
)

// disk is the content of the files: what the next reload would accept.
type disk struct {
	keyFault  int
	keys      []identity.Record
	jwksFault int
	signers   map[int]bool
	cfgFault  int
	named     bool // the configuration names the key file
	issuer    bool
	anonymous bool
	certs     map[int]bool
	region    int
	hint      int
	port      int // applies after a restart
	badSecret bool
	policy    int // number of its rule
	badPolicy bool
	tenants   map[string]bool // enabled
}

// model is the state that must be in force.
type model struct {
	region, hint int
	keys         map[string]bool // by id: accepted
	signers      map[int]bool
	certs        map[int]bool
	anonymous    bool
	named        bool // the configuration in force names the key file
	open         bool // every credential maps to the anonymous tenant
	policy       int
	pushed       bool // the policy in force was pushed
	overPolicy   string
	enabled      map[string]bool // tenants that the policy in force enables
	blocked      map[string]bool // withdrawn tenants
	pending      map[string]bool // revoked keys whose revocation is not in the file
	active       int             // module of the plugin, 0 = none
	before       []int           // the modules that were active before it
}

// metaWorld is a router, its files, and the model of its expected state.
type metaWorld struct {
	*liveRouter
	r       *rand.Rand
	disk    disk
	m       model
	secrets map[string]string // keys by id
	tenant  map[string]string // of keys by id
	trace   []string
}

var (
	metaTenants = []string{"acme", "globex"}
	metaModules = []string{"", "prefixfirst", "roundrobin"}
)

// metaShared is the state that all sequences share, because it is slow to create.
type metaShared struct {
	signers []*signer
	tokens  []string
	certs   []*x509.Certificate
	cache   string // of compiled plugins
	tls     string // directory of certificates
}

func (w *metaWorld) tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// save writes the files of d.
func (w *metaWorld) save(sh *metaShared) {
	d := &w.disk
	b, err := json.MarshalIndent(&identity.KeyFile{Version: 1, Keys: d.keys}, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	text := string(b)
	switch d.keyFault {
	case garbage:
		text = "{"
	case partly:
		text = strings.Replace(text, `"version": 1`, `"version": 7`, 1)
	}
	w.write("keys.json", text)
	var in []*signer
	for i, s := range sh.signers {
		if d.signers[i] {
			in = append(in, s)
		}
	}
	text = jwks(w.t, in...)
	if d.jwksFault != sound {
		text = "no key set"
	}
	w.write("jwks.json", text)
	w.write("secret", map[bool]string{false: "a secret of enough characters", true: "short"}[d.badSecret])
	w.write("policy/kvasir/decision.rego", metaPolicy(d.policy))
	os.Remove(w.path("policy/kvasir/broken.rego"))
	if d.badPolicy {
		w.write("policy/kvasir/broken.rego", "package kvasir\n\nx {")
	}
	w.write("policy/data/tenants/all.json", metaData(d.tenants))
	w.write("kvasir.yaml", w.config(sh))
}

func metaPolicy(n int) string {
	return fmt.Sprintf(`package kvasir

default decision := {"allow": false, "reason": "undefined"}

# METADATA
# labels: {id: rule_%d}
decision := {
	"allow": true,
	"constraints": [{"label": "pool", "op": "in", "values": ["main"]}],
	"cache": {"scope": "tenant"},
} if data.tenants[input.tenant.id].enabled
`, n)
}

func metaData(enabled map[string]bool) string {
	out := map[string]map[string]bool{"local": {"enabled": true}, "batch": {"enabled": true}}
	for t, on := range enabled {
		out[t] = map[string]bool{"enabled": on}
	}
	b, _ := json.Marshal(out)
	return string(b)
}

func (w *metaWorld) config(sh *metaShared) string {
	d := &w.disk
	var id []string
	if d.named {
		id = append(id, "api_keys_file: "+w.path("keys.json"))
	}
	if d.issuer {
		id = append(id, w.issuer("jwks.json"))
	}
	if d.anonymous {
		id = append(id, "anonymous: {tenant: local}")
	}
	var certs []string
	for i := range sh.certs {
		if d.certs[i] {
			certs = append(certs, fmt.Sprintf("{san: \"dns:c%d\", tenant: batch}", i))
		}
	}
	if len(certs) > 0 {
		id = append(id, "mtls: ["+strings.Join(certs, ", ")+"]")
	}
	f := func(name string) string { return filepath.Join(sh.tls, name) }
	text := fmt.Sprintf("listen: {http: \"127.0.0.1:%d\", tls: {cert_file: %s, key_file: %s, client_ca_file: %s}}\n"+
		"admin: {http: \"127.0.0.1:0\"}\nregion: r%d\nstate_dir: %s\n"+
		"identity: {%s}\nclient_hints: {session: x-h%d}\n"+
		"pools: [{name: main, isolation_probe: {mode: off}, events: {mode: off}, endpoints: [\"http://10.0.0.1:8000\"], "+
		"autoscale: {max: 2, driver: {webhook: {url: \"https://driver.example\", secret_file: %s}}}}]\n"+
		"models: [{name: m, pools: [main]}]\nprofiles: [{name: d, holdout: 0, scorers: [{plugin: mine}]}]\n"+
		"plugins: [{name: mine}]\npolicy: {dir: %s}\n",
		d.port, f("cert.pem"), f("key.pem"), f("cert.pem"), d.region, w.path("state"), strings.Join(id, ", "), d.hint,
		w.path("secret"), w.path("policy"))
	switch d.cfgFault {
	case garbage:
		text += "pools: [\n"
	case partly:
		text += "nonsense: 1\n"
	}
	return text
}

// newMeta starts a router with valid files.
func newMeta(t *testing.T, sh *metaShared, seed uint64) *metaWorld {
	w := &metaWorld{liveRouter: newLive(t), r: rand.New(rand.NewPCG(seed, 1)), secrets: map[string]string{},
		tenant: map[string]string{}}
	w.disk = disk{named: true, issuer: true, anonymous: true, signers: map[int]bool{0: true, 1: true},
		certs:   map[int]bool{0: true, 1: true},
		tenants: map[string]bool{"acme": true, "globex": true}}
	for _, d := range []string{"policy/kvasir", "policy/data/tenants", "state"} {
		mkdir(t, w.path(d))
	}
	if err := os.Symlink(sh.cache, w.path("state/wasm-cache")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.addKey()
	}
	w.save(sh)
	cfg, err := config.Load(w.path("kvasir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if w.Host, err = New(cfg, Options{Log: slog.New(slog.NewTextHandler(w.log, nil))}); err != nil {
		t.Fatal(err)
	}
	w.m = model{pending: map[string]bool{}, blocked: map[string]bool{}}
	w.accept()
	w.acceptPolicy()
	return w
}

func (w *metaWorld) end() {
	w.closeListeners()
	w.audit.Close()
	if err := w.closeRules(); err != nil {
		w.t.Error(err)
	}
}

// addKey issues a key into the file.
func (w *metaWorld) addKey() {
	pepper, err := statedir.Pepper(w.path("state"))
	if err != nil {
		w.t.Fatal(err)
	}
	f := identity.KeyFile{Version: 1}
	tenant := metaTenants[w.r.IntN(2)]
	key, r, err := f.Issue(pepper, identity.Grant{Tenant: tenant}, "test", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.secrets[r.ID], w.tenant[r.ID] = key, tenant
	w.disk.keys = append(w.disk.keys, r)
}

// accept sets the model to the content of the files, except for the policy.
func (w *metaWorld) accept() {
	d, m := &w.disk, &w.m
	m.region, m.hint, m.anonymous, m.named, m.open = d.region, d.hint, d.anonymous, d.named, d.anonymous &&
		!d.named && !d.issuer
	m.keys, m.signers = map[string]bool{}, map[int]bool{}
	if d.named {
		for i := range d.keys {
			m.keys[d.keys[i].ID] = d.keys[i].Revoked.IsZero() && !m.pending[d.keys[i].ID]
		}
	}
	if d.issuer {
		m.signers = maps.Clone(d.signers)
	}
	m.certs = maps.Clone(d.certs)
}

func (w *metaWorld) acceptPolicy() {
	w.m.policy, w.m.enabled, w.m.pushed, w.m.blocked = w.disk.policy, maps.Clone(w.disk.tenants), false, map[string]bool{}
}

// withdraw removes from the model what the files no longer grant.
func (w *metaWorld) withdraw() {
	d, m := &w.disk, &w.m
	legible := d.cfgFault != garbage && (d.named || d.issuer || d.anonymous || len(trueOf(d.certs)) > 0)
	named, issuer := m.named, true
	if legible {
		named, issuer = d.named, d.issuer
		m.anonymous = m.anonymous && d.anonymous
		m.open = m.open && m.anonymous
		for i := range m.certs {
			m.certs[i] = m.certs[i] && d.certs[i]
		}
	}
	if !named || d.keyFault != garbage {
		valid := map[string]bool{}
		if named {
			for i := range d.keys {
				valid[d.keys[i].ID] = d.keys[i].Revoked.IsZero()
			}
		}
		for id := range m.keys {
			m.keys[id] = m.keys[id] && valid[id]
		}
	}
	for i := range m.signers {
		m.signers[i] = m.signers[i] && issuer && (d.jwksFault != sound || d.signers[i])
	}
	if w.directoryCounts() {
		for t, on := range d.tenants {
			if m.enabled[t] && !on {
				m.blocked[t] = true
			}
		}
	}
}

// directoryCounts reports whether the policy's directory has changed since a policy was
// pushed.
func (w *metaWorld) directoryCounts() bool { return !w.m.pushed || w.m.overPolicy != w.directory() }

func (w *metaWorld) directory() string {
	return fmt.Sprint(w.disk.policy, w.disk.badPolicy, w.disk.tenants["acme"], w.disk.tenants["globex"])
}

func trueOf(m map[int]bool) (out []int) {
	for k, v := range m {
		if v {
			out = append(out, k)
		}
	}
	return out
}

// reload calls Reload, checks its result and updates the model.
func (w *metaWorld) reload(sh *metaShared) {
	w.withdraw()
	_, err := w.rules.Reload(true)
	d := &w.disk
	configured := d.named || d.issuer || d.anonymous || len(trueOf(d.certs)) > 0
	ok := d.cfgFault == sound && configured && !d.badSecret && (!d.named || d.keyFault == sound) &&
		(!d.issuer || d.jwksFault == sound)
	w.tracef("reload: %v, want accepted %t", err, ok)
	if !ok {
		if err == nil {
			w.t.Errorf("a faulty reload was accepted")
		}
		return
	}
	refused := w.directoryCounts() && d.badPolicy
	if (err == nil) == refused {
		w.t.Errorf("reload: %v, policy refused %t", err, refused)
	}
	w.accept()
	switch {
	case refused:
	case w.directoryCounts():
		w.acceptPolicy()
	default:
		w.m.blocked = map[string]bool{}
	}
}

// step makes one random change.
func (w *metaWorld) step(sh *metaShared) {
	d, r := &w.disk, w.r
	flip := func(m map[int]bool) { i := r.IntN(2); m[i] = !m[i] }
	fault := func() int { return []int{sound, sound, garbage, partly}[r.IntN(4)] }
	edit := func(what string, f func()) {
		f()
		w.tracef("edit %s", what)
		w.save(sh)
		if r.IntN(4) > 0 {
			w.reload(sh)
		}
	}
	switch n := r.IntN(20); n {
	case 0:
		edit("region", func() { d.region++ })
	case 1:
		edit("hints", func() { d.hint++ })
	case 2:
		edit("port", func() { d.port++ })
	case 3:
		edit("anonymous", func() { d.anonymous = !d.anonymous })
	case 4:
		edit("issuer", func() { d.issuer = !d.issuer })
	case 5:
		edit("certificates", func() { flip(d.certs) })
	case 6:
		edit("key file named", func() { d.named = !d.named })
	case 7:
		edit("configuration's faults", func() { d.cfgFault = fault() })
	case 8:
		edit("secret", func() { d.badSecret = !d.badSecret })
	case 9:
		edit("a key more", w.addKey)
	case 10:
		edit("a key revoked", func() {
			if k := w.pick(); k != nil {
				k.Revoked = time.Now().UTC().Truncate(time.Second)
			}
		})
	case 11:
		edit("a key restored", func() {
			if k := w.pick(); k != nil {
				k.Revoked = time.Time{}
			}
		})
	case 12:
		edit("a key removed", func() {
			if n := len(d.keys); n > 0 {
				d.keys = slices.Delete(slices.Clone(d.keys), n-1, n)
			}
		})
	case 13:
		edit("key file's faults", func() { d.keyFault = fault() })
	case 14:
		edit("issuer's keys", func() { flip(d.signers) })
	case 15:
		edit("issuer's faults", func() { d.jwksFault = fault() })
	case 16:
		edit("policy", func() {
			d.policy++
			d.badPolicy = r.IntN(3) == 0
			t := metaTenants[r.IntN(2)]
			d.tenants[t] = !d.tenants[t]
		})
	case 17:
		w.pushPolicy()
	case 18:
		w.pushPlugin()
	default:
		w.admin()
	}
}

func (w *metaWorld) pick() *identity.Record {
	if len(w.disk.keys) == 0 {
		return nil
	}
	w.disk.keys = slices.Clone(w.disk.keys)
	return &w.disk.keys[w.r.IntN(len(w.disk.keys))]
}

func (w *metaWorld) pushPolicy() {
	n, good := 1000+w.r.IntN(1000), w.r.IntN(2) == 0
	enabled := map[string]bool{"acme": w.r.IntN(2) == 0, "globex": w.r.IntN(2) == 0}
	files := map[string][]byte{"kvasir/decision.rego": []byte(metaPolicy(n)),
		"data/tenants/all.json": []byte(metaData(enabled))}
	if !good {
		files["kvasir/broken.rego"] = []byte("package kvasir\n\nx {")
	}
	_, err := w.policy().PushPolicy(context.Background(), files, true)
	w.tracef("push policy %d: %v", n, err)
	if (err == nil) != good {
		w.t.Errorf("push of a policy: %v, want accepted %t", err, good)
	}
	if good {
		w.m.policy, w.m.enabled, w.m.pushed, w.m.overPolicy, w.m.blocked = n, enabled, true, w.directory(), map[string]bool{}
	}
}

func (w *metaWorld) pushPlugin() {
	which := w.r.IntN(4)
	if which == 3 {
		_, err := w.plugins.Rollback(context.Background(), "mine")
		w.tracef("rollback: %v", err)
		n := len(w.m.before)
		if (err == nil) != (n > 0) {
			w.t.Errorf("rollback: %v, after %d others", err, n)
		} else if err == nil {
			w.m.active, w.m.before = w.m.before[n-1], w.m.before[:n-1]
		}
		return
	}
	code := []byte("no module")
	if which > 0 {
		var err error
		if code, err = plugins.Code(metaModules[which]); err != nil {
			w.t.Fatal(err)
		}
	}
	if which == w.m.active && which > 0 {
		return
	}
	_, err := w.plugins.Push(context.Background(), "mine", code, true, "test")
	w.tracef("push plugin %s: %v", metaModules[which], err)
	if (err == nil) != (which > 0) {
		w.t.Errorf("push of plugin %q: %v", metaModules[which], err)
	}
	if err == nil {
		w.m.before, w.m.active = append(w.m.before, w.m.active), which
	}
}

// admin issues or revokes a key on the running router.
func (w *metaWorld) admin() {
	a := rules.Keys{Manager: w.rules}
	writable := w.m.named && w.disk.keyFault == sound
	if w.r.IntN(2) == 0 {
		tenant := metaTenants[w.r.IntN(2)]
		k, err := a.Issue(context.Background(), &admin.KeyRequest{Grant: identity.Grant{Tenant: tenant}})
		w.tracef("issue: %v", err)
		if (err == nil) != writable {
			w.t.Errorf("issue: %v, file can be written: %t", err, writable)
		}
		if err == nil {
			w.secrets[k.ID], w.tenant[k.ID] = k.Key, tenant
			w.m.keys[k.ID] = true
			w.m.open = false
			w.flush()
		}
		return
	}
	ids := slices.Sorted(maps.Keys(w.secrets))
	id := ids[w.r.IntN(len(ids))]
	_, inForce := w.m.keys[id]
	onDisk := slices.ContainsFunc(w.disk.keys, func(r identity.Record) bool { return r.ID == id })
	_, err := a.Revoke(context.Background(), id)
	w.tracef("revoke %s: %v", id, err)
	if inForce {
		w.m.keys[id], w.m.pending[id] = false, true
	}
	if writable && onDisk {
		w.flush()
	}
}

// flush reads the key file again after the router has written it.
func (w *metaWorld) flush() {
	f, err := identity.ReadFile(w.path("keys.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range f.Keys {
		if w.m.pending[f.Keys[i].ID] && f.Keys[i].Revoked.IsZero() {
			w.t.Errorf("a revocation is not in the file")
		}
	}
	w.disk.keys, w.m.pending = f.Keys, map[string]bool{}
}

// check compares the router with the model.
func (w *metaWorld) check(sh *metaShared) {
	l := w.rules.Acquire()
	defer l.Release()
	rev, m := l.Value(), &w.m
	ask := func(what string, c identity.Credentials, want string) {
		w.t.Helper()
		p, err := rev.Identity.Authenticate(&c)
		got := ""
		if err == nil {
			got = p.Tenant
		}
		if got != want {
			w.t.Errorf("%s: got tenant %q (%v), want %q", what, got, err, want)
		}
	}
	fallback := ""
	if m.anonymous {
		fallback = "local"
	}
	ask("no credentials", identity.Credentials{}, fallback)
	for id, key := range w.secrets {
		want := ""
		if m.keys[id] && !m.blocked[w.tenant[id]] {
			want = w.tenant[id]
		} else if m.open {
			want = "local"
		}
		ask("key "+id, identity.Credentials{APIKey: []byte(key)}, want)
	}
	for i, token := range sh.tokens {
		want := ""
		if m.signers[i] && !m.blocked["acme"] {
			want = "acme"
		} else if m.open {
			want = "local"
		}
		ask(fmt.Sprint("token ", i), identity.Credentials{Authorization: []byte("Bearer " + token)}, want)
	}
	for i, c := range sh.certs {
		want := fallback
		if m.certs[i] {
			want = "batch"
		}
		ask(fmt.Sprint("certificate ", i), identity.Credentials{Certificate: c}, want)
	}
	c := rev.Config
	if c.Region != fmt.Sprint("r", m.region) || c.ClientHints.Session != fmt.Sprint("x-h", m.hint) ||
		c.Listen.HTTP != "127.0.0.1:0" {
		w.t.Errorf("got region %s, hint %s, listen %s; want r%d, x-h%d", c.Region, c.ClientHints.Session, c.Listen.HTTP,
			m.region, m.hint)
	}
	if rev.Edge != w.rulesEdge() {
		w.t.Error("the edge that reads requests is not the one of the revision")
	}
	w.checkPlugin(rev)
	w.checkPolicy(rev)
}

func (w *metaWorld) rulesEdge() any { return routeRules{w.Host}.Acquire().Edge }

func (w *metaWorld) checkPlugin(rev *rules.Revision) {
	want := ""
	if w.m.active > 0 {
		want = shippedDigest(w.t, metaModules[w.m.active])
	}
	if got := rev.Plugins.Modules()["mine"]; got != want {
		w.t.Errorf("got plugin %.8s, want %s", got, metaModules[w.m.active])
	}
}

func (w *metaWorld) checkPolicy(rev *rules.Revision) {
	for _, tenant := range metaTenants {
		var api llmapi.Request
		if err := api.Scan(llmapi.OpChat,
			[]byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
			w.t.Fatal(err)
		}
		e := rev.Scheduler.DryRun(&scheduler.Request{API: &api,
			Principal: &identity.Principal{Tenant: tenant, Method: identity.MethodAPIKey}, ID: "dry-run"})
		allowed := len(e.Rules) == 1 && e.Rules[0] == fmt.Sprint("rule_", w.m.policy)
		if allowed != w.m.enabled[tenant] {
			w.t.Errorf("policy %d about %s: got %v, want enabled %t", w.m.policy, tenant, e.Rules, w.m.enabled[tenant])
		}
	}
}

// TestRules_metamorphic runs random sequences of changes of configuration, keys,
// issuers' keys, certificates, policy and plugins, many of them faulty, through the
// router's own interfaces. After each step exactly the last accepted revision is in
// force, without the grants that were withdrawn. Under the race detector it runs a
// quarter of the sequences.
func TestRules_metamorphic(t *testing.T) {
	sequences := metaSequences
	if testdeps.Race {
		sequences /= 4
	}
	sh := &metaShared{cache: private(t), tls: t.TempDir()}
	for i := range 2 {
		s := newSigner(t, fmt.Sprint("k", i))
		sh.signers, sh.tokens = append(sh.signers, s), append(sh.tokens, s.token(t, "acme"))
		sh.certs = append(sh.certs, &x509.Certificate{DNSNames: []string{fmt.Sprint("c", i)}})
	}
	writeCertificate(t, sh.tls)
	steps := 0
	for seed := range uint64(sequences) {
		w := newMeta(t, sh, seed)
		w.check(sh)
		for range 10 {
			w.step(sh)
			w.check(sh)
			steps++
			if t.Failed() {
				t.Fatalf("sequence %d:\n%s", seed, strings.Join(w.trace, "\n"))
			}
		}
		w.end()
	}
	t.Logf("%d sequences, %d steps", sequences, steps)
}

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	s := newSigner(t, "tls")
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"router.example"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(crand.Reader, c, c, s.key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(s.key)
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	save(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})))
}

// private creates a directory that other users cannot access.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
