// Package config reads the configuration file: one YAML document, decoded
// strictly. Every fault is told with its line and what to write instead, and
// all faults are told together. Packages own their settings and defaults; this
// package owns the shape of the file and how its parts refer to each other.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/plugsign"
)

// Config is the whole file. It is immutable once Load has returned it.
type Config struct {
	Listen      Listen      `yaml:"listen" reload:"live" doc:"where clients connect: an address, or {http, tls, max_body}"`
	Admin       Admin       `yaml:"admin" reload:"live" doc:"the operator's listener; never the clients' one"`
	Region      string      `yaml:"region" reload:"live" doc:"where this router is; policies see it as router.region"`
	StateDir    string      `yaml:"state_dir" reload:"restart" doc:"0700; holds the salt key and the key pepper, which must survive restarts"`
	Pools       []Pool      `yaml:"pools" reload:"live" doc:"endpoints that are interchangeable"`
	Models      []Model     `yaml:"models" reload:"live" doc:"what clients may ask for"`
	Profiles    []Profile   `yaml:"profiles" reload:"live" doc:"how requests are placed; the first is the default"`
	Plugins     []Plugin    `yaml:"plugins" reload:"live" doc:"Wasm plugins that profiles name"`
	PluginDir   string      `yaml:"plugin_dir" reload:"restart" doc:"watched folder: NAME.wasm in it is the module of plugin NAME while it lies there, before the pushed version and the plugin's file; one with the role score that no profile names is added to the default profile, if that names no scorers, and places instead of the default cost; default none: whoever may write there says where requests go, so production pushes"`
	PluginStore PluginStore `yaml:"plugin_store" reload:"live" doc:"bounds of what is pushed"`
	Signatures  Signatures  `yaml:"plugin_signatures" reload:"live" doc:"who must have signed the modules of plugins, pushed, saved or named by file; those that ship with the router are part of it"`
	Policy      Policy      `yaml:"policy" reload:"live" doc:"what tenants may do, as Rego; absent = every tenant may use every model in a cache namespace of its own"`
	Identity    Identity    `yaml:"identity" reload:"live" doc:"who may ask"`
	ClientHints ClientHints `yaml:"client_hints" reload:"live" doc:"headers that are read and then stripped"`
	Limits      Limits      `yaml:"limits" reload:"live" doc:"bounds of the process"`
	Telemetry   Telemetry   `yaml:"telemetry" reload:"live" doc:"what leaves the process about its work"`

	// File is where the configuration came from, for errors and reload.
	File string `yaml:"-"`
	// Absent are the plugin files that are not there. They stop nobody at start:
	// another version or a built-in stands in.
	Absent Faults `yaml:"-"`
	// Digest is the SHA-256 of its text, in hexadecimal.
	Digest string `yaml:"-"`
}

// Listen is the clients' listener. A plain string is taken as HTTP.
type Listen struct {
	HTTP    string `yaml:"http" reload:"restart" doc:"host:port"`
	TLS     TLS    `yaml:"tls" reload:"live" doc:"serve HTTPS"`
	MaxBody Size   `yaml:"max_body" reload:"live" doc:"greatest request body; default 64MiB: a 1M-token prompt is about 5 MB, so this leaves room for images in base64"`
}

// TLS names the files of a TLS identity.
type TLS struct {
	CertFile     string `yaml:"cert_file" reload:"restart" doc:"PEM"`
	KeyFile      string `yaml:"key_file" reload:"restart" doc:"PEM"`
	ClientCAFile string `yaml:"client_ca_file" reload:"restart" doc:"PEM; clients must present a certificate of this authority"`
}

// Admin is the operator's listener.
type Admin struct {
	HTTP      string   `yaml:"http" reload:"restart" doc:"host:port; default 127.0.0.1:9090"`
	TokenFile string   `yaml:"token_file" reload:"live" doc:"file with the bearer token; default <state_dir>/admin.token, created when absent"`
	Metrics   string   `yaml:"metrics" reload:"restart" doc:"host:port of a second listener that serves /metrics alone, without a token"`
	Hosts     []string `yaml:"hosts" reload:"live" doc:"further Host header values that are accepted; loopback names always are"`
}

// Pool is a set of interchangeable endpoints.
type Pool struct {
	Name        string            `yaml:"name" reload:"live" doc:"unique; also the value of the label pool"`
	Dialect     string            `yaml:"dialect" reload:"live" doc:"vllm, sglang, llamacpp, ollama or openai (any other server of that API); default vllm"`
	Parser      Parser            `yaml:"parser" reload:"live" doc:"a plugin that reads the metrics of an engine that no dialect knows; with dialect: openai; experimental"`
	Endpoints   []string          `yaml:"endpoints" reload:"live" doc:"base URLs"`
	Discover    Discover          `yaml:"discover" reload:"live" doc:"further endpoints: from a file or from DNS"`
	Labels      map[string]string `yaml:"labels" reload:"live" doc:"for policy constraints"`
	Price       float64           `yaml:"price" reload:"live" doc:"of a GPU second beside that of other pools, in whatever money; for plugins that read the column price; default 0 = not set"`
	Spot        bool              `yaml:"spot" reload:"live" doc:"true: may be taken away at any moment; for plugins that read the column spot; default false"`
	BlockTokens AutoInt           `yaml:"block_tokens" reload:"live" doc:"tokens per KV block; default auto: as the engine tells"`
	Events      Events            `yaml:"events" reload:"live" doc:"the engine's cache events"`
	Credentials Credentials       `yaml:"credentials" reload:"live" doc:"what the engine gets; a client's credentials never leave the router"`
	TLS         EngineTLS         `yaml:"tls" reload:"live" doc:"for endpoints whose URL begins with https://; cache events are not encrypted"`
	Fields      Fields            `yaml:"fields" reload:"live" doc:"how request fields outside the allow-list are treated"`
	Capacity    Capacity          `yaml:"capacity" reload:"live" doc:"bounds of one endpoint"`
	Timeouts    exchange.Timeouts `yaml:"timeouts" reload:"live" doc:"bounds of one request"`
	Tenant      string            `yaml:"tenant" reload:"live" doc:"the one tenant whose requests may come here, whatever policy says; its caches then need no salts; default any"`
	Isolation   IsolationProbe    `yaml:"isolation_probe" reload:"live" doc:"whether the engines are seen to keep caches of different salts apart; the result is the label isolation: verified, unverified or none, and engines of none get no salted requests"`
	Autoscale   Autoscale         `yaml:"autoscale" reload:"live" doc:"how many endpoints the pool has; default: as many as endpoints lists"`
	Priority    string            `yaml:"priority" reload:"live" doc:"on or off; default off: the engines are told the priority that policy gives a request; on needs vLLM's --scheduling-policy priority, without which vLLM takes no notice of it"`
}

// IsolationProbe is when an endpoint's isolation is looked at.
type IsolationProbe struct {
	Mode        string   `yaml:"mode" reload:"live" doc:"auto, on or off; default auto: on where there can be several tenants; a probe is three or four requests of about 2,000 prompt tokens and one of output, sent while the endpoint is idle"`
	Every       Duration `yaml:"every" reload:"live" doc:"default 1h: what an engine does with salts changes with a restart, which is seen and probed at once"`
	Unexplained string   `yaml:"unexplained" reload:"live" doc:"revoke or log: what to do when an answer reports cached tokens that its namespace cannot hold; default revoke: the endpoint gets no salted request until its engine restarts or it is uncordoned; log is for engines without cache events that other routers use too"`
}

// Parser is how an engine is scraped that no dialect knows.
type Parser struct {
	Plugin      string `yaml:"plugin" reload:"live" doc:"name of a plugin with the role x_backend_parse; where it fails the engines' figures are unknown, and they stay in service"`
	MetricsPath string `yaml:"metrics_path" reload:"live" doc:"what is scraped, such as /stats; needed"`
	HealthPath  string `yaml:"health_path" reload:"live" doc:"what answers 200 while the engine is well; default /v1/models"`
}

// Discover names a source of endpoints.
type Discover struct {
	File   string   `yaml:"file" reload:"live" doc:"JSON: a list of URLs, or of {targets} as Prometheus' file_sd has them; watched; a broken file changes nothing"`
	DNS    string   `yaml:"dns" reload:"live" doc:"name whose addresses, with port, are endpoints; without port the name of SRV records; a name server that fails changes nothing"`
	Port   int      `yaml:"port" reload:"live" doc:"of the addresses of dns; default 0: SRV records"`
	Plugin string   `yaml:"plugin" reload:"live" doc:"name of a plugin with the role x_discover that reads the file, whatever its format; a fault changes nothing; experimental"`
	Allow  []string `yaml:"allow" reload:"live" doc:"where discovered endpoints may be: networks such as 10.0.0.0/8, host names, *.domain; others are left out; default anywhere; needed with a plugin"`
	Every  Duration `yaml:"every" reload:"live" doc:"how often it is asked; default 1s for a file, 10s for dns: the time to live of a headless service's records in Kubernetes is 5 to 30 s"`
}

// On reports whether there is a source.
func (d *Discover) On() bool { return d.File != "" || d.DNS != "" }

// Events says where an engine publishes its cache events.
type Events struct {
	Mode       string   `yaml:"mode" reload:"live" doc:"auto, on or off; default auto: used when the engine has them"`
	Port       int      `yaml:"port" reload:"live" doc:"of the publisher; default 5557 (vLLM's), rank r is at port+r"`
	ReplayPort AutoInt  `yaml:"replay_port" reload:"live" doc:"default auto: as the engine tells, else port+1"`
	Topic      string   `yaml:"topic" reload:"live" doc:"subscription prefix; default all"`
	Sources    []Source `yaml:"sources" reload:"live" doc:"explicit addresses per endpoint, instead of ports"`
}

// Source is the event address of one endpoint.
type Source struct {
	Endpoint string `yaml:"endpoint" reload:"live" doc:"base URL as in endpoints"`
	Events   string `yaml:"events" reload:"live" doc:"tcp://host:port"`
	Replay   string `yaml:"replay" reload:"live" doc:"tcp://host:port"`
	Listen   string `yaml:"listen" reload:"live" doc:"tcp://host:port to wait on for an engine that dials us, instead of events"`
}

// Credentials is what an engine is shown.
type Credentials struct {
	BearerFile string `yaml:"bearer_file" reload:"live" doc:"file with the token"`
}

// EngineTLS names the files of the TLS that is used with engines.
type EngineTLS struct {
	CAFile     string `yaml:"ca_file" reload:"live" doc:"PEM; authorities of the engines' certificates; default: those of the system"`
	CertFile   string `yaml:"cert_file" reload:"live" doc:"PEM; the router's certificate, for engines that require one"`
	KeyFile    string `yaml:"key_file" reload:"live" doc:"PEM; of cert_file"`
	ServerName string `yaml:"server_name" reload:"live" doc:"name in the engines' certificates; default: the host of the URL"`
}

// Fields is how request fields outside the allow-list are treated.
type Fields struct {
	Unknown  string `yaml:"unknown" reload:"live" doc:"pass, drop or refuse fields that the router does not know; default pass: engines ignore or refuse them"`
	Internal string `yaml:"internal" reload:"live" doc:"drop or refuse fields that control the engine's cache, routing or code, such as cache_salt and priority; default drop"`
}

// Capacity bounds one endpoint.
type Capacity struct {
	MaxInflight int `yaml:"max_inflight" reload:"live" doc:"requests at once on one endpoint; default 256: vLLM's own default batch limit; above it requests wait (queue of the profile)"`
	CacheTokens int `yaml:"kv_tokens" reload:"live" doc:"KV cache size in tokens where the engine does not tell; default 0 = as the engine tells, else 1,048,576"`
}

// Model is a name clients may ask for.
type Model struct {
	Name      string      `yaml:"name" reload:"live" doc:"unique"`
	Aliases   []string    `yaml:"aliases" reload:"live" doc:"further names"`
	Pools     []ModelPool `yaml:"pools" reload:"live" doc:"where it is served: a pool's name, or {name, served_as, weight}"`
	Tokenizer Tokenizer   `yaml:"tokenizer" reload:"live" doc:"without it placement knows no prompts"`
	Locality  string      `yaml:"locality" reload:"live" doc:"on, off or auto; default auto"`
}

// ModelPool is one pool that serves a model. A plain string is its name.
type ModelPool struct {
	Name     string  `yaml:"name" reload:"live" doc:"of a pool"`
	ServedAs string  `yaml:"served_as" reload:"live" doc:"the engine's name of the model; default the model's name"`
	Weight   float64 `yaml:"weight" reload:"live" doc:"share of requests relative to the model's other pools; default 1"`
}

// Tokenizer is a directory as published with a model.
type Tokenizer struct {
	Dir          string `yaml:"dir" reload:"live" doc:"holds tokenizer.json, tokenizer_config.json and, for some, chat_template.jinja"`
	Digest       string `yaml:"digest" reload:"live" doc:"sha256:…; refuses a directory with other contents"`
	TimeZone     string `yaml:"time_zone" reload:"live" doc:"of the engine, for templates that print the date; default UTC"`
	TemplateFile string `yaml:"template_file" reload:"live" doc:"the chat template, where the engine was started with another one"`
	Library      string `yaml:"library" reload:"live" doc:"auto, bpe or hf; default auto: bpe, and hf for what bpe does not know"`
}

// Profile is how requests are placed.
type Profile struct {
	Name      string   `yaml:"name" reload:"live" doc:"unique"`
	Objective string   `yaml:"objective" reload:"live" doc:"ttft, throughput or blend; default blend"`
	Scorers   []Scorer `yaml:"scorers" reload:"live" doc:"whose scores are added up, at most 4; default [{plugin: leastwork}], the default cost as the plugin that ships with the router: whoever writes a better one replaces it like any other; where it fails, the same cost as native code scores. [{builtin: leastwork}] has the native code alone, which saves about 0.3 µs a request"`
	Normalize string   `yaml:"normalize" reload:"live" doc:"off, minmax or rank; default off. minmax puts each scorer's scores of a request's candidates between 0, the worst, and 1, the best, before they are weighted and added up, rank their order: for scorers of unlike units, which are refused otherwise. rank where single far-off scores must not drown the others"`
	Queue     Queue    `yaml:"queue" reload:"live" doc:"how requests wait while every endpoint that could take them is at its max_inflight"`
	// DefaultScorers says that the file named none.
	DefaultScorers bool     `yaml:"-"`
	Filters        []string `yaml:"filters" reload:"live" doc:"plugins that may drop candidates, in this order, at most 4"`
	Picker         string   `yaml:"picker" reload:"live" doc:"builtin or a plugin that puts the candidates in order; default builtin"`
	Trust          string   `yaml:"trust" reload:"live" doc:"measured or off; default measured: off places by load alone"`
	Envelope       Envelope `yaml:"envelope" reload:"live" doc:"how far load may follow locality"`
	Sticky         Sticky   `yaml:"sticky" reload:"live" doc:"session affinity where prompts are unknown"`
	Holdout        *float64 `yaml:"holdout" reload:"live" doc:"share of requests placed without locality, to measure what locality gains; default 0.005: 4,000 of 800,000 requests a day tell p95 well, and it costs at most 0.5 % of the hits"`
}

// Scorer is what scores, as one profile uses it: a plugin or a built-in.
type Scorer struct {
	Plugin  string  `yaml:"plugin" reload:"live" doc:"name of a plugin, or of one that ships with the router: leastwork, roundrobin, prefixfirst"`
	Builtin string  `yaml:"builtin" reload:"live" doc:"leastwork or roundrobin, as code of the router instead of a plugin"`
	Weight  float64 `yaml:"weight" reload:"live" doc:"its scores are multiplied by it; default 1"`
	Config  JSON    `yaml:"config" reload:"live" doc:"given to the plugin instead of the plugin's own config"`
	// Required is for a scorer without which the sum of the others means nothing.
	Required bool `yaml:"required" reload:"live" doc:"true: a request it is not heard on, for a fault or because it abstains, is scored by the built-in cost alone; default false: the others are added up without it"`
}

// Name is the plugin's or the built-in's.
func (s *Scorer) Name() string {
	if s.Builtin != "" {
		return s.Builtin
	}
	return s.Plugin
}

// Plugin is a Wasm module (abi/SPEC.md).
type Plugin struct {
	Name   string       `yaml:"name" reload:"live" doc:"unique; lower-case letters, digits and -"`
	File   string       `yaml:"file" reload:"live" doc:"the module; saving it swaps the plugin; a version that was pushed and activated goes before it; default: the plugin of this name that ships with the router"`
	Grants []string     `yaml:"grants" reload:"live" doc:"what it may use: log, kv, metrics; default nothing"`
	Limits PluginLimits `yaml:"limits" reload:"live" doc:"bounds of one instance and of a call"`
	Config JSON         `yaml:"config" reload:"live" doc:"given to the plugin; default {}"`
}

// PluginStore bounds what is pushed.
type PluginStore struct {
	Bytes       Size     `yaml:"bytes" reload:"live" doc:"of all stored modules; default 512MiB; the oldest that are neither active nor the version before go, then a push is refused"`
	PusherBytes Size     `yaml:"pusher_bytes" reload:"live" doc:"of the modules that one pusher stored first; default 64MiB: ten of Go's standard toolchain; as bytes"`
	Trial       Duration `yaml:"trial" reload:"live" doc:"time in which a pushed module is compiled and checked; default 10s, at most 3m; one at a time per pusher"`
}

// PluginLimits bound one instance of a plugin and its calls.
type PluginLimits struct {
	Memory Size     `yaml:"memory" reload:"live" doc:"default 16MiB: Go's runtime needs 4; at most 64MiB: there are up to 8 instances"`
	Call   Duration `yaml:"call" reload:"live" doc:"most processor time of a call that filters, scores or picks among 64 candidates, and as much for every further 64; default 2ms, at most 100ms: a plugin that takes more is refused, or quarantined where it does so later"`
}

// Signatures says whose signatures of modules count.
type Signatures struct {
	Required bool              `yaml:"required" reload:"live" doc:"true: a module that none of keys signed is refused when it is pushed, saved in plugin_dir, named by file, or found in the store at start; default false: only a signature of one of keys that does not hold is"`
	Keys     map[string]string `yaml:"keys" reload:"live" doc:"name: public key, as kvasir plugin keygen prints it; at most 16"`
}

// Trust returns them as package plugsign takes them, by name. The keys must be
// valid, as those of a Config are.
func (s *Signatures) Trust() *plugsign.Trust {
	t := &plugsign.Trust{Required: s.Required}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if key, err := plugsign.ParseKey(s.Keys[name]); err == nil {
			t.Keys = append(t.Keys, plugsign.Key{Name: name, Public: key})
		}
	}
	return t
}

// Envelope bounds locality.
type Envelope struct {
	MaxLoadRatio float64 `yaml:"max_load_ratio" reload:"live" doc:"default 1.5 times the mean outstanding work"`
	SlackTokens  int     `yaml:"slack_tokens" reload:"live" doc:"default 16384: so that one request at low load breaks no affinity"`
	MaxShare     float64 `yaml:"max_share" reload:"live" doc:"default 0.5: of one endpoint's work that one tenant may hold while others ask for it"`
}

// Queue is how requests wait for a place.
type Queue struct {
	Deadline   *Duration `yaml:"deadline" reload:"live" doc:"default 30s: longer, and clients give up first; 0s refuses at once, with 429"`
	MaxWaiting int       `yaml:"max_waiting" reload:"live" doc:"requests that may wait, whatever their profile; default 1000: each holds its body and a connection; more are refused at once, with 429"`
}

// Sticky is session affinity.
type Sticky struct {
	TTL Duration `yaml:"ttl" reload:"live" doc:"default 30m"`
}

// ClientHints names the headers that clients may steer with.
type ClientHints struct {
	Session  string            `yaml:"session" reload:"live" doc:"requests with the same value go to the same endpoint where prompts are unknown or policy pins sessions; default x-kvasir-session"`
	Priority string            `yaml:"priority" reload:"live" doc:"the class the client asks for, which policy may grant; default x-kvasir-priority"`
	Labels   map[string]string `yaml:"labels" reload:"live" doc:"label: header; the header's value is input.request.labels.LABEL of policy, unless the credential has a label of that name; at most 16"`
}

// Limits bound the process.
type Limits struct {
	Concurrent    int  `yaml:"concurrent" reload:"live" doc:"requests at once; default 4096"`
	BytesInFlight Size `yaml:"bytes_in_flight" reload:"live" doc:"of request bodies; default 2GiB"`
	Index         Size `yaml:"index" reload:"restart" doc:"block index; default 256MiB: about 10 million (block, endpoint) pairs"`
	Prompts       Size `yaml:"prompts" reload:"restart" doc:"memo of rendered and encoded prompts; default 512MiB"`
	Decisions     Size `yaml:"decisions" reload:"restart" doc:"kept for explain; default 64MiB, at most 10,000 decisions"`
}

// Telemetry is what leaves the process about its work.
type Telemetry struct {
	LogLevel  string `yaml:"log_level" reload:"restart" doc:"debug, info, warn or error; default info"`
	LogFormat string `yaml:"log_format" reload:"restart" doc:"json or text; default text"`

	TenantLabels bool `yaml:"tenant_labels" reload:"live" doc:"true: counts of requests and tokens by tenant among the metrics, for the first 4,096 tenants; default false: who reads metrics need not know who the tenants are, and each is six more series"`

	AuditLog    AuditLog    `yaml:"audit_log" reload:"live" doc:"who changed what: kvasir audit verify"`
	DecisionLog DecisionLog `yaml:"decision_log" reload:"live" doc:"what the policy decided, as JSON lines with the field names of OPA's decision logs; never prompts, keys or salts"`
}

// DecisionLog is the log of what the policy decided.
type DecisionLog struct {
	File         string   `yaml:"file" reload:"restart" doc:"default none: nothing is logged"`
	SampleAllow  *float64 `yaml:"sample_allow" reload:"restart" doc:"share of allowed requests that are logged where the policy's audit is sample; default 0.01: 1 of 100 shows who asks for what; denied ones are logged always"`
	Mask         []string `yaml:"mask" reload:"restart" doc:"paths that are left out, such as /input/tenant/user; beside those of the policy's data.system.log.mask"`
	RequireAudit bool     `yaml:"require_audit" reload:"restart" doc:"refuse requests with 503 while the log cannot be written, and wait for the disk; default false: serve, and count what was dropped"`
	MaxSize      Size     `yaml:"max_size" reload:"restart" doc:"when the file is put away as FILE.1; default 64MiB"`
	Keep         int      `yaml:"keep" reload:"restart" doc:"files kept beside it; default 8"`
}

// AuditLog is the log of what operators do.
type AuditLog struct {
	File string `yaml:"file" reload:"restart" doc:"appended to, never shortened; a file of 64MiB is put away beside it as NAME.NUMBER; default <state_dir>/audit.log"`
}

// Load reads and checks the file at path. The error is a Faults when the file
// could be read but is not sound.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse reads and checks a configuration. name is used in errors, env resolves
// ${NAME}.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	sum := sha256.Sum256(data)
	c := &Config{File: name, Digest: hex.EncodeToString(sum[:])}
	d := &decoder{env: env, lines: map[string]pos{}}
	if d.document(data, c) {
		c.defaults()
		for _, f := range c.validate() {
			d.faultAt(f.path, f.text)
		}
		c.Absent = d.absent(c)
	}
	if len(d.faults) > 0 {
		return nil, d.sorted(name)
	}
	return c, nil
}

// Read is Load for commands that need a few settings: values are not checked, nor
// are the files that they name, such as a key file that is still to be written.
func Read(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := &Config{File: path}
	d := &decoder{env: os.LookupEnv, lines: map[string]pos{}}
	if !d.document(data, c) || len(d.faults) > 0 {
		return nil, d.sorted(path)
	}
	c.defaults()
	return c, nil
}

// Faults is every fault of one file, in the order of its lines.
type Faults []Fault

// Fault is one fault of a configuration file.
type Fault struct {
	File string
	Line int // from 1; 0 = the file as a whole
	Path string
	Text string // what is wrong and what to write instead
}

func (f Fault) String() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Path == "" {
		return where + ": " + f.Text
	}
	return where + ": " + f.Path + ": " + f.Text
}

func (f Faults) Error() string {
	s := make([]string, len(f))
	for i := range f {
		s[i] = f[i].String()
	}
	return strings.Join(s, "\n")
}

// Duration is a time.Duration written as "30s".
type Duration = time.Duration

// Size is a number of bytes written as "64MiB".
type Size int64

// AutoInt is a positive integer, or "auto" (0).
type AutoInt int

// JSON is a mapping of any shape, kept as JSON text; "" = absent.
type JSON string
