package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// MaxEndpoints is the maximum number of endpoints of one router: the index's holder
// sets and the plugins' batches are sized for it.
const MaxEndpoints = 2048

func or[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// defaults sets fields that the file leaves out. The comment of each field gives
// the reason of its value.
func (c *Config) defaults() {
	or(&c.Listen.MaxBody, 64<<20)
	or(&c.Listen.BodyTimeout, Duration(time.Minute))
	or(&c.Listen.WriteTimeout, Duration(time.Minute))
	or(&c.Limits.DrainTimeout, Duration(5*time.Minute))
	or(&c.Admin.HTTP, "127.0.0.1:9090")
	or(&c.StateDir, "/var/lib/kvasir")
	c.Policy.defaults()
	or(&c.ClientHints.Session, "x-kvasir-session")
	or(&c.ClientHints.Priority, "x-kvasir-priority")
	or(&c.Limits.Concurrent, 4096)
	or(&c.Limits.BytesInFlight, 2<<30)
	or(&c.Limits.Index, 256<<20)
	or(&c.Limits.Prompts, 256<<20)
	or(&c.Limits.Decisions, 64<<20)
	or(&c.Telemetry.LogLevel, "info")
	or(&c.Telemetry.LogFormat, "text")
	c.Telemetry.DecisionLog.defaults()
	for i := range c.Pools {
		c.Pools[i].defaults()
		c.Pools[i].Autoscale.defaults()
	}
	for i := range c.Models {
		m := &c.Models[i]
		or(&m.Locality, "auto")
		or(&m.Tokenizer.TimeZone, "UTC")
		or(&m.Tokenizer.Library, "auto")
		for j := range m.Pools {
			or(&m.Pools[j].ServedAs, m.Name)
			or(&m.Pools[j].Weight, 1)
		}
	}
	if len(c.Profiles) == 0 {
		c.Profiles = []Profile{{Name: "default"}}
	}
	for i := range c.Profiles {
		c.Profiles[i].defaults()
	}
	or(&c.PluginStore.Bytes, 512<<20)
	or(&c.PluginStore.PusherBytes, 64<<20)
	or(&c.PluginStore.Trial, Duration(10*time.Second))
	for i := range c.Plugins {
		or(&c.Plugins[i].Limits.Memory, 16<<20)
		or(&c.Plugins[i].Limits.Call, Duration(2*time.Millisecond))
	}
}

func (p *Pool) defaults() {
	or(&p.Dialect, dialect.Default)
	or(&p.Priority, "off")
	if p.Discover.On() {
		every := Duration(time.Second)
		if p.Discover.DNS != "" {
			every = Duration(10 * time.Second)
		}
		or(&p.Discover.Every, every)
	}
	or(&p.Isolation.Mode, "auto")
	or(&p.Isolation.Unexplained, "revoke")
	or(&p.Isolation.Every, Duration(time.Hour))
	or(&p.Fields.Unknown, "pass")
	or(&p.Fields.Internal, "drop")
	or(&p.Events.Mode, "auto")
	or(&p.Events.Port, 5557)
	or(&p.Capacity.MaxInflight, 256)
	d := exchange.DefaultTimeouts()
	p.Timeouts = p.Timeouts.Or(&d)
}

func (p *Profile) defaults() {
	or(&p.Objective, "blend")
	if len(p.Scorers) == 0 {
		p.DefaultScorers, p.Scorers = true, []Scorer{{Plugin: "leastwork"}}
	}
	for i := range p.Scorers {
		or(&p.Scorers[i].Weight, 1)
	}
	or(&p.Picker, Builtin)
	if p.Queue.Deadline == nil {
		d := Duration(30 * time.Second)
		p.Queue.Deadline = &d
	}
	if p.Queue.MaxDelay == nil {
		p.Queue.MaxDelay = p.Queue.Deadline
	}
	or(&p.Queue.MaxWaiting, 1000)
	or(&p.Normalize, "off")
	or(&p.Trust, "measured")
	or(&p.Envelope.MaxLoadRatio, 1.5)
	if p.Envelope.SlackTokens == nil {
		n := 16384
		p.Envelope.SlackTokens = &n
	}
	or(&p.Envelope.MaxShare, 0.5)
	or(&p.Sticky.TTL, Duration(30*time.Minute))
	if p.Holdout == nil {
		h := 0.005
		p.Holdout = &h
	}
}

// problem describes an invalid value at a path.
type problem struct{ path, text string }

// checker collects problems.
type checker struct{ out []problem }

func (k *checker) add(path, format string, args ...any) {
	k.out = append(k.out, problem{path, fmt.Sprintf(format, args...)})
}

// between checks the bounds of a time.
func (k *checker) between(path string, d, least, most time.Duration) {
	if d < least || d > most {
		k.add(path, "want %v to %v, got %v", least, most, d)
	}
}

func (k *checker) oneOf(path, got string, want ...string) {
	if !slices.Contains(want, got) {
		k.add(path, "want one of %s, got %q", strings.Join(want, ", "), got)
	}
}

func (k *checker) address(path, a string) {
	if _, _, err := net.SplitHostPort(a); err != nil {
		k.add(path, "want host:port such as 127.0.0.1:8080, got %q", a)
	}
}

func (k *checker) file(path, name string) {
	if name == "" {
		return
	}
	if st, err := os.Stat(name); err != nil {
		k.add(path, "%v", err)
	} else if st.IsDir() {
		k.add(path, "%s is a directory: want a file", name)
	}
}

// dir checks that name, unless empty, is a directory; want describes it.
func (k *checker) dir(path, name, want string) {
	if name == "" {
		return
	}
	if st, err := os.Stat(name); err != nil {
		k.add(path, "%v", err)
	} else if !st.IsDir() {
		k.add(path, "%s is a file: want %s", name, want)
	}
}

func (c *Config) validate() []problem {
	k := new(checker)
	if c.Listen.HTTP == "" {
		k.add("listen", "missing: write listen: 127.0.0.1:8080")
	} else {
		k.address("listen", c.Listen.HTTP)
	}
	k.tls(c.Listen.TLS)
	for i, o := range c.Listen.CORSOrigins {
		if u, err := url.Parse(o); o != "*" && (err != nil || u.Host == "" || o != u.Scheme+"://"+u.Host) {
			k.add(fmt.Sprintf("listen.cors_origins[%d]", i), "want an origin such as https://chat.example, or *, got %q", o)
		}
	}
	k.between("listen.body_timeout", c.Listen.BodyTimeout, 100*time.Millisecond, time.Hour)
	k.between("listen.write_timeout", c.Listen.WriteTimeout, 100*time.Millisecond, time.Hour)
	k.between("limits.drain_timeout", c.Limits.DrainTimeout, 100*time.Millisecond, 24*time.Hour)
	k.address("admin.http", c.Admin.HTTP)
	if c.Admin.Metrics != "" {
		k.address("admin.metrics", c.Admin.Metrics)
	}
	k.identity(&c.Identity, c.Listen.TLS.ClientCAFile)
	k.oneOf("telemetry.log_level", c.Telemetry.LogLevel, "debug", "info", "warn", "error")
	k.oneOf("telemetry.log_format", c.Telemetry.LogFormat, "json", "text")
	k.decisionLog(&c.Telemetry.DecisionLog)
	k.hints(&c.ClientHints)
	k.dir("plugin_dir", c.PluginDir, "the folder that holds NAME.wasm")
	pools := k.pools(c.Pools)
	k.overflows(c)
	k.policy(&c.Policy, pools)
	k.models(c.Models, pools)
	k.pluginStore(&c.PluginStore)
	k.pluginStore(&c.PluginStore)
	usable := k.plugins(c.Plugins)
	k.profiles(c.Profiles, usable)
	k.matches(c)
	k.poolPlugins(c.Pools, usable)
	k.signatures(&c.Signatures)
	return k.out
}

// maxHintLabels is the maximum number of headers that become labels.
const maxHintLabels = 16

var (
	hintHeader = regexp.MustCompile(`^[xX]-[A-Za-z0-9-]{1,61}$`)
	hintLabel  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	// hintTaken matches headers that have another meaning, and headers with which clients
	// must not influence placement.
	hintTaken = regexp.MustCompile(`^(?i)x-(request-id|api-key|auth-token|goog-api-key|amz-security-token|real-ip|` +
		`tenant-.*|cache-salt.*|gateway-.*|forwarded-.*|data-parallel-.*)$`)
)

// hints checks the names of the headers that influence placement.
func (k *checker) hints(h *ClientHints) {
	seen := map[string]string{}
	header := func(path, name string) {
		low := strings.ToLower(name)
		switch {
		case !hintHeader.MatchString(name):
			k.add(path, "want a header name of at most 63 letters, digits and - that begins with x-, got %q", name)
		case hintTaken.MatchString(name):
			k.add(path, "header %q is reserved: choose another one", name)
		case seen[low] != "":
			k.add(path, "duplicate header %q: already used by %s", name, seen[low])
		}
		seen[low] = path
	}
	header("client_hints.session", h.Session)
	header("client_hints.priority", h.Priority)
	if len(h.Labels) > maxHintLabels {
		k.add("client_hints.labels", "%d labels, at most %d", len(h.Labels), maxHintLabels)
	}
	for _, label := range slices.Sorted(maps.Keys(h.Labels)) {
		path := "client_hints.labels." + label
		if !hintLabel.MatchString(label) {
			k.add(path, "want a label of lower-case letters, digits and _, got %q", label)
		}
		header(path, h.Labels[label])
	}
}

func (k *checker) tls(t TLS) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.add("listen.tls", "set both cert_file and key_file, or neither")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		k.add("listen.tls", "client_ca_file requires cert_file and key_file")
	}
	k.file("listen.tls.cert_file", t.CertFile)
	k.file("listen.tls.key_file", t.KeyFile)
	k.file("listen.tls.client_ca_file", t.ClientCAFile)
}

func (k *checker) models(models []Model, pools map[string]bool) {
	if len(models) == 0 {
		k.add("models", "missing: write models: [{name: my-model, pools: [main], tokenizer: {dir: /models/my-model}}]")
	}
	names := map[string]bool{}
	dirOf := map[string]string{} // pool → tokenizer directory
	for i := range models {
		m, path := &models[i], fmt.Sprintf("models[%d]", i)
		if m.Name == "" {
			k.add(path+".name", "missing")
		}
		for _, n := range append([]string{m.Name}, m.Aliases...) {
			if names[n] {
				k.add(path, "duplicate model name %q", n)
			}
			names[n] = true
		}
		k.oneOf(path+".locality", m.Locality, "on", "off", "auto")
		k.oneOf(path+".tokenizer.library", m.Tokenizer.Library, "auto", "bpe", "hf")
		k.tokenizer(path+".tokenizer", m.Tokenizer)
		if len(m.Pools) == 0 {
			k.add(path+".pools", "missing: no pool serves %q", m.Name)
		}
		for j, p := range m.Pools {
			at := fmt.Sprintf("%s.pools[%d]", path, j)
			if !pools[p.Name] {
				k.add(at, "unknown pool %q", p.Name)
			}
			if p.Weight < 0 {
				k.add(at, "want a weight of at least 0, got %v", p.Weight)
			}
			if d, ok := dirOf[p.Name]; ok && d != m.Tokenizer.Dir {
				k.add(at, "pool %q serves another model with tokenizer %q: the models of a pool must share one tokenizer",
					p.Name, d)
			}
			dirOf[p.Name] = m.Tokenizer.Dir
		}
	}
}

func (k *checker) tokenizer(path string, t Tokenizer) {
	if _, err := time.LoadLocation(t.TimeZone); err != nil {
		k.add(path+".time_zone", "%v", err)
	}
	if t.Digest != "" && !strings.HasPrefix(t.Digest, "sha256:") {
		k.add(path+".digest", "want sha256:…, got %q", t.Digest)
	}
	k.file(path+".template_file", t.TemplateFile)
	k.dir(path+".dir", t.Dir, "the directory that holds tokenizer.json")
}

// matches checks the kinds of requests that profiles are for.
func (k *checker) matches(c *Config) {
	models := map[string]bool{}
	for i := range c.Models {
		models[c.Models[i].Name] = true
	}
	for i := range c.Profiles {
		path := fmt.Sprintf("profiles[%d].match", i)
		if i == 0 && len(c.Profiles[0].Match) > 0 {
			k.add(path, "the first profile is the default for all other requests: remove match")
		}
		for n := range c.Profiles[i].Match {
			k.match(&c.Profiles[i].Match[n], fmt.Sprintf("%s[%d]", path, n), models)
		}
	}
}

func (k *checker) match(m *ProfileMatch, path string, models map[string]bool) {
	if len(m.Models)+len(m.Operations)+len(m.Labels) == 0 {
		k.add(path, "no condition: name models, operations or labels")
	}
	for _, name := range m.Models {
		if !models[name] {
			k.add(path+".models", "unknown model %q", name)
		}
	}
	for _, name := range m.Operations {
		if !slices.Contains(llmapi.Names(), name) {
			k.add(path+".operations", "unknown operation %q, want one of %s", name, strings.Join(llmapi.Names(), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if name == "" || len(m.Labels[name]) == 0 {
			k.add(path+".labels", "label %q has no values", name)
		}
	}
}

func (k *checker) profiles(profiles []Profile, plugins map[string]bool) {
	names := map[string]bool{}
	for i := range profiles {
		p, path := &profiles[i], fmt.Sprintf("profiles[%d]", i)
		if p.Name == "" || names[p.Name] {
			k.add(path+".name", "missing or duplicate profile name %q", p.Name)
		}
		names[p.Name] = true
		k.oneOf(path+".objective", p.Objective, "ttft", "throughput", "blend")
		k.uses(p, path, plugins)
		k.oneOf(path+".normalize", p.Normalize, "off", "minmax", "rank")
		k.oneOf(path+".trust", p.Trust, "measured", "off")
		if d := *p.Queue.MaxDelay; d > *p.Queue.Deadline || d <= 0 && *p.Queue.Deadline > 0 {
			k.add(path+".queue.max_delay", "want more than 0s and at most the deadline of %v, got %v",
				time.Duration(*p.Queue.Deadline), time.Duration(d))
		}
		if *p.Holdout < 0 || *p.Holdout > 1 {
			k.add(path+".holdout", "want a share from 0 to 1, got %v", *p.Holdout)
		}
		if p.Envelope.MaxLoadRatio < 1 {
			k.add(path+".envelope.max_load_ratio", "want at least 1, got %v", p.Envelope.MaxLoadRatio)
		}
		if *p.Envelope.SlackTokens < 0 {
			k.add(path+".envelope.slack_tokens", "want at least 0, got %d", *p.Envelope.SlackTokens)
		}
		p.Conversations.check(k, path+".conversations")
		if p.Envelope.MaxShare < 0 || p.Envelope.MaxShare > 1 {
			k.add(path+".envelope.max_share", "want a share from 0 to 1, got %v", p.Envelope.MaxShare)
		}
	}
}

// check refuses negative values.
func (c *Conversations) check(k *checker, path string) {
	for _, v := range []struct {
		key   string
		value *int
	}{{"hold_tokens", c.HoldTokens}, {"spread_tokens", c.SpreadTokens}, {"join_after", c.JoinAfter}} {
		if v.value != nil && *v.value < 0 {
			k.add(path+"."+v.key, "want at least 0, got %d", *v.value)
		}
	}
}
