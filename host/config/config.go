// Package config reads the configuration file: one YAML document, decoded
// strictly. It reports all errors of a file together, each with its line and a
// suggested fix. Packages own their settings and defaults; this package owns the
// shape of the file and how its parts refer to each other.
//
// The struct tags of a field are its key (yaml) and when a change of it takes effect
// (reload: live or restart). The comment above a field is its description in the
// schema, word for word: make generate copies it to docs.go.
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
	// where clients connect: an address, or {http, tls, max_body}
	Listen Listen `yaml:"listen" reload:"live"`
	// the operators' listener, separate from that of the clients
	Admin Admin `yaml:"admin" reload:"live"`
	// where this router runs; input.router.region of policy
	Region string `yaml:"region" reload:"live"`
	// directory of one router, mode 0700; holds the salt key and the key pepper, which
	// must survive restarts
	StateDir string `yaml:"state_dir" reload:"restart"`
	// sets of interchangeable endpoints
	Pools []Pool `yaml:"pools" reload:"live"`
	// models that clients may request
	Models []Model `yaml:"models" reload:"live"`
	// how requests are placed; the first is the default
	Profiles []Profile `yaml:"profiles" reload:"live"`
	// Wasm plugins that profiles and pools name
	Plugins []Plugin `yaml:"plugins" reload:"live"`
	// watched folder: a file NAME.wasm in it is the module of plugin NAME and takes
	// precedence over the pushed version and the plugin's file; if the default profile
	// names no scorers, a module with the role score that no profile names replaces its
	// default cost; default none: anyone who can write there decides where requests go,
	// so use kvasir plugin push in production
	PluginDir string `yaml:"plugin_dir" reload:"restart"`
	// limits of pushed modules
	PluginStore PluginStore `yaml:"plugin_store" reload:"live"`
	// keys that sign plugin modules, whether they are pushed, saved or named by file;
	// modules that ship with the router need no signature
	Signatures Signatures `yaml:"plugin_signatures" reload:"live"`
	// Rego rules of what tenants may do; absent = every tenant may use every model in
	// its own cache namespace
	Policy Policy `yaml:"policy" reload:"live"`
	// how clients and operators authenticate
	Identity Identity `yaml:"identity" reload:"live"`
	// request headers that influence placement; they are not forwarded
	ClientHints ClientHints `yaml:"client_hints" reload:"live"`
	// limits of the process
	Limits Limits `yaml:"limits" reload:"live"`
	// logs and metrics
	Telemetry Telemetry `yaml:"telemetry" reload:"live"`

	// File is where the configuration came from, for errors and reload.
	File string `yaml:"-"`
	// Absent lists the plugin files that do not exist. A router starts without them,
	// with another version or the built-in.
	Absent Errors `yaml:"-"`
	// Digest is the SHA-256 of the file, in hexadecimal.
	Digest string `yaml:"-"`
}

// Listen is the clients' listener. A plain string is taken as HTTP.
type Listen struct {
	// host:port
	HTTP string `yaml:"http" reload:"restart"`
	// serve HTTPS
	TLS TLS `yaml:"tls" reload:"live"`
	// maximum size of a request body; default 64MiB: a 1M-token prompt is about 5 MB,
	// which leaves room for images in base64
	MaxBody Size `yaml:"max_body" reload:"live"`
	// time limit for a client's request head, and for each MiB of its body; default 60s
	BodyTimeout Duration `yaml:"body_timeout" reload:"restart"`
	// how long a client may go without accepting a byte of an answer; default 60s
	WriteTimeout Duration `yaml:"write_timeout" reload:"restart"`
	// origins whose scripts may read answers, such as https://chat.example, or *;
	// default none
	CORSOrigins []string `yaml:"cors_origins" reload:"live"`
}

// TLS names the files of a TLS identity.
type TLS struct {
	// PEM; watched: new connections use a renewed certificate. Adding or removing TLS
	// requires a restart
	CertFile string `yaml:"cert_file" reload:"live"`
	// PEM; watched, as cert_file
	KeyFile string `yaml:"key_file" reload:"live"`
	// PEM; clients must present a certificate issued by this authority
	ClientCAFile string `yaml:"client_ca_file" reload:"restart"`
}

// Admin is the operators' listener.
type Admin struct {
	// host:port; default 127.0.0.1:9090
	HTTP string `yaml:"http" reload:"restart"`
	// file with the bearer token; default <state_dir>/admin.token, created if absent
	TokenFile string `yaml:"token_file" reload:"live"`
	// host:port of a second listener that serves only /metrics, without a token
	Metrics string `yaml:"metrics" reload:"restart"`
	// accepted values of the Host header beside loopback names and addresses
	Hosts []string `yaml:"hosts" reload:"live"`
}

// Pool is a set of interchangeable endpoints.
type Pool struct {
	// unique; also the value of the label pool
	Name string `yaml:"name" reload:"live"`
	// vllm, sglang, llamacpp, ollama or openai (any other server of that API); default
	// vllm
	Dialect string `yaml:"dialect" reload:"live"`
	// plugin that reads the metrics of an engine without a dialect of its own; requires
	// dialect: openai; experimental
	Parser Parser `yaml:"parser" reload:"live"`
	// base URLs
	Endpoints []string `yaml:"endpoints" reload:"live"`
	// further endpoints: from a file or from DNS
	Discover Discover `yaml:"discover" reload:"live"`
	// labels of the endpoints, for policy constraints
	Labels map[string]string `yaml:"labels" reload:"live"`
	// price of a GPU second relative to other pools, in any currency; for plugins that
	// read the column price; default 0 = not set
	Price float64 `yaml:"price" reload:"live"`
	// true if endpoints may be preempted at any time; for plugins that read the column
	// spot; default false
	Spot bool `yaml:"spot" reload:"live"`
	// tokens per KV block; default auto: as the engine reports
	BlockTokens AutoInt `yaml:"block_tokens" reload:"live"`
	// the engine's cache events
	Events Events `yaml:"events" reload:"live"`
	// credentials that the router sends to the engines; clients' credentials are never
	// forwarded
	Credentials Credentials `yaml:"credentials" reload:"live"`
	// for endpoints whose URL begins with https://; cache events are not encrypted
	TLS EngineTLS `yaml:"tls" reload:"live"`
	// how request fields outside the allow-list are treated
	Fields Fields `yaml:"fields" reload:"live"`
	// limits of one endpoint
	Capacity Capacity `yaml:"capacity" reload:"live"`
	// limits of one request
	Timeouts exchange.Timeouts `yaml:"timeouts" reload:"live"`
	// the only tenant that may use the pool, whatever policy says; its caches then need
	// no salts; default any tenant
	Tenant string `yaml:"tenant" reload:"live"`
	// probe that checks whether an engine keeps caches of different salts apart; its
	// result is the label isolation: verified, unverified or none; engines labelled none
	// receive no salted requests
	Isolation IsolationProbe `yaml:"isolation_probe" reload:"live"`
	// number of endpoints; default: those that endpoints lists
	Autoscale Autoscale `yaml:"autoscale" reload:"live"`
	// on or off; default off; on sends the priority that policy gives a request to the
	// engines; requires vLLM's --scheduling-policy priority, without which vLLM ignores
	// it
	Priority string `yaml:"priority" reload:"live"`
}

// IsolationProbe configures the probe of an endpoint's cache isolation.
type IsolationProbe struct {
	// auto, on or off; default auto: on where there can be several tenants; a probe is
	// three or four requests of about 2,000 prompt tokens and one of output, sent while
	// the endpoint is idle
	Mode string `yaml:"mode" reload:"live"`
	// default 1h: what an engine does with salts changes with a restart, which is seen
	// and probed at once
	Every Duration `yaml:"every" reload:"live"`
	// revoke or log: what to do when an answer reports cached tokens that its namespace
	// cannot hold; default revoke: the endpoint gets no salted request until its engine
	// restarts or it is uncordoned; log is for engines without cache events that other
	// routers use too
	Unexplained string `yaml:"unexplained" reload:"live"`
}

// Parser configures the scraping of an engine that has no dialect.
type Parser struct {
	// name of a plugin with the role x_backend_parse; if it fails, the engines' metrics
	// are unknown and the engines stay in service
	Plugin string `yaml:"plugin" reload:"live"`
	// path that is scraped, such as /stats; required
	MetricsPath string `yaml:"metrics_path" reload:"live"`
	// path that returns 200 while the engine is healthy; default /v1/models
	HealthPath string `yaml:"health_path" reload:"live"`
}

// Discover names a source of endpoints.
type Discover struct {
	// JSON file with a list of URLs, or of {targets} as in Prometheus' file_sd; watched;
	// an invalid file changes nothing
	File string `yaml:"file" reload:"live"`
	// DNS name whose addresses, with port, are endpoints; without port, the name of SRV
	// records; a failed lookup changes nothing
	DNS string `yaml:"dns" reload:"live"`
	// port of the addresses of dns; default 0: SRV records
	Port int `yaml:"port" reload:"live"`
	// name of a plugin with the role x_discover that reads the file in any format; an
	// error changes nothing; experimental
	Plugin string `yaml:"plugin" reload:"live"`
	// allowed addresses of discovered endpoints: networks such as 10.0.0.0/8, host
	// names, *.domain; others are ignored; default any; required with a plugin
	Allow []string `yaml:"allow" reload:"live"`
	// polling interval; default 1s for a file, 10s for dns: records of a headless
	// service in Kubernetes live 5 to 30 s
	Every Duration `yaml:"every" reload:"live"`
}

// On reports whether a source is set.
func (d *Discover) On() bool { return d.File != "" || d.DNS != "" }

// Events configures the addresses at which an engine publishes its cache events.
type Events struct {
	// auto, on or off; default auto: used if the engine publishes them
	Mode string `yaml:"mode" reload:"live"`
	// port of the publisher; default 5557 (vLLM's); rank r is at port+r
	Port int `yaml:"port" reload:"live"`
	// default auto: as the engine reports, else port+1
	ReplayPort AutoInt `yaml:"replay_port" reload:"live"`
	// subscription prefix; default all
	Topic string `yaml:"topic" reload:"live"`
	// addresses per endpoint, instead of ports
	Sources []Source `yaml:"sources" reload:"live"`
}

// Source is the event address of one endpoint.
type Source struct {
	// base URL as in endpoints
	Endpoint string `yaml:"endpoint" reload:"live"`
	// tcp://host:port
	Events string `yaml:"events" reload:"live"`
	// tcp://host:port
	Replay string `yaml:"replay" reload:"live"`
	// tcp://host:port to listen on for an engine that connects to the router, instead of
	// events
	Listen string `yaml:"listen" reload:"live"`
}

// Credentials holds what the router authenticates with at an engine.
type Credentials struct {
	// file with the token
	BearerFile string `yaml:"bearer_file" reload:"live"`
}

// EngineTLS names the files of the TLS that is used with engines.
type EngineTLS struct {
	// PEM; authorities of the engines' certificates; default: those of the system
	CAFile string `yaml:"ca_file" reload:"live"`
	// PEM; the router's certificate, for engines that require one
	CertFile string `yaml:"cert_file" reload:"live"`
	// PEM; of cert_file
	KeyFile string `yaml:"key_file" reload:"live"`
	// name in the engines' certificates; default: the host of the URL
	ServerName string `yaml:"server_name" reload:"live"`
}

// Fields configures how request fields outside the allow-list are treated.
type Fields struct {
	// pass, drop or refuse fields that the router does not know; default pass: engines
	// ignore or refuse them
	Unknown string `yaml:"unknown" reload:"live"`
	// drop or refuse fields that control the engine's cache, routing or code, such as
	// cache_salt and priority; default drop
	Internal string `yaml:"internal" reload:"live"`
}

// Capacity bounds one endpoint.
type Capacity struct {
	// concurrent requests on one endpoint; default 256: vLLM's default batch limit;
	// further requests wait (queue of the profile)
	MaxInflight int `yaml:"max_inflight" reload:"live"`
	// KV cache size in tokens if the engine does not report it; default 0 = as the
	// engine reports, else 1,048,576
	CacheTokens int `yaml:"kv_tokens" reload:"live"`
}

// Model is a model that clients may request.
type Model struct {
	// unique
	Name string `yaml:"name" reload:"live"`
	// further names
	Aliases []string `yaml:"aliases" reload:"live"`
	// pools that serve it: names, or {name, served_as, weight}
	Pools []ModelPool `yaml:"pools" reload:"live"`
	// without it, placement does not see prompts
	Tokenizer Tokenizer `yaml:"tokenizer" reload:"live"`
	// whether cached prefixes are looked up: on, off or auto; default auto: only for one
	// request in 32 while what is found saves less time than finding it takes
	Locality string `yaml:"locality" reload:"live"`
}

// ModelPool is one pool that serves a model. A plain string is its name.
type ModelPool struct {
	// of a pool
	Name string `yaml:"name" reload:"live"`
	// the engine's name of the model; default the model's name
	ServedAs string `yaml:"served_as" reload:"live"`
	// share of requests that one endpoint of the pool gets relative to those of the
	// model's other pools, as far as locality and load leave the choice; more than 0;
	// default 1
	Weight float64 `yaml:"weight" reload:"live"`
}

// Tokenizer is a directory as published with a model.
type Tokenizer struct {
	// holds tokenizer.json, tokenizer_config.json and, for some, chat_template.jinja
	Dir string `yaml:"dir" reload:"live"`
	// sha256:…; refuses a directory with other contents
	Digest string `yaml:"digest" reload:"live"`
	// time zone of the engine, for templates that print the date; default UTC
	TimeZone string `yaml:"time_zone" reload:"live"`
	// chat template, if the engine was started with another one
	TemplateFile string `yaml:"template_file" reload:"live"`
	// auto, bpe or hf; default auto: bpe, or hf for tokenizers that bpe does not support
	Library string `yaml:"library" reload:"live"`
}

// Profile configures how requests are placed.
type Profile struct {
	// unique
	Name string `yaml:"name" reload:"live"`
	// the kinds of requests that use this profile, unless policy names a profile: the
	// first profile whose match holds is used, else the first profile of the list, which
	// has no match
	Match []ProfileMatch `yaml:"match" reload:"live"`
	// ttft, throughput or blend; default blend
	Objective string `yaml:"objective" reload:"live"`
	// scorers whose scores are added up, at most 4; default [{plugin: leastwork}], the
	// default cost as a plugin that ships with the router; if it fails, the same cost in
	// native code scores. [{builtin: leastwork}] uses only the native code and saves
	// about 0.3 µs per request
	Scorers []Scorer `yaml:"scorers" reload:"live"`
	// off, minmax or rank; default off. minmax maps each scorer's scores of a request's
	// candidates to 0 (worst) to 1 (best) before they are weighted and added up; rank
	// uses their order instead and is robust against outliers. One of them is required
	// for scorers of different units
	Normalize string `yaml:"normalize" reload:"live"`
	// how requests wait while every endpoint that could take them is at its max_inflight
	Queue Queue `yaml:"queue" reload:"live"`
	// DefaultScorers reports that the file names none.
	DefaultScorers bool `yaml:"-"`
	// plugins that may drop candidates, in this order, at most 4
	Filters []string `yaml:"filters" reload:"live"`
	// builtin or a plugin that puts the candidates in order; default builtin
	Picker string `yaml:"picker" reload:"live"`
	// measured or off; default measured; off places by load alone
	Trust string `yaml:"trust" reload:"live"`
	// how far locality may unbalance the load
	Envelope Envelope `yaml:"envelope" reload:"live"`
	// rules that choose among endpoints of similar cost, so that conversations stay and
	// begin evenly; on if leastwork is the only scorer and the objective is not ttft,
	// else off unless set here. They need scores in tokens
	Conversations Conversations `yaml:"conversations" reload:"live"`
	// session affinity where prompts are unknown or policy pins sessions
	Sticky Sticky `yaml:"sticky" reload:"live"`
	// share of requests placed without locality, to measure what locality gains; default
	// 0.005: 4,000 of 800,000 requests a day estimate p95 well, at a cost of at most 0.5
	// % of the cache hits
	Holdout *float64 `yaml:"holdout" reload:"live"`
}

// ProfileMatch describes a kind of requests; all conditions that are set must hold.
type ProfileMatch struct {
	// names of models; default any
	Models []string `yaml:"models" reload:"live"`
	// operations, such as chat.completions; default any
	Operations []string `yaml:"operations" reload:"live"`
	// map of label to accepted values; the label may come from the request
	// (client_hints.labels) or its credential
	Labels map[string][]string `yaml:"labels" reload:"live"`
}

// Scorer is a plugin or a built-in that scores, as one profile uses it.
type Scorer struct {
	// name of a plugin; leastwork, roundrobin and prefixfirst ship with the router
	Plugin string `yaml:"plugin" reload:"live"`
	// leastwork or roundrobin, in native code instead of a plugin
	Builtin string `yaml:"builtin" reload:"live"`
	// factor of its scores; default 1
	Weight float64 `yaml:"weight" reload:"live"`
	// configuration passed to the plugin instead of plugins[].config
	Config JSON `yaml:"config" reload:"live"`
	// true: if it fails or abstains, the request is scored by the built-in cost alone;
	// default false: the other scores are added up without it
	Required bool `yaml:"required" reload:"live"`
}

// Name returns the name of the plugin or built-in.
func (s *Scorer) Name() string {
	if s.Builtin != "" {
		return s.Builtin
	}
	return s.Plugin
}

// Plugin is a Wasm module (abi/SPEC.md).
type Plugin struct {
	// unique; lower-case letters, digits and -
	Name string `yaml:"name" reload:"live"`
	// module file; watched; a version that was pushed and activated takes precedence;
	// default: the plugin of this name that ships with the router
	File string `yaml:"file" reload:"live"`
	// host modules that it may import: log, kv, metrics; default none
	Grants []string `yaml:"grants" reload:"live"`
	// limits of an instance and of a call
	Limits PluginLimits `yaml:"limits" reload:"live"`
	// configuration passed to the plugin; default {}
	Config JSON `yaml:"config" reload:"live"`
}

// PluginStore bounds the modules that are pushed.
type PluginStore struct {
	// total size of stored modules; default 512MiB; the oldest that are neither active
	// nor previous are removed first, then a push is refused
	Bytes Size `yaml:"bytes" reload:"live"`
	// total size of the modules that one pusher stored first; default 64MiB: thirty
	// modules of Go's standard toolchain; enforced as bytes
	PusherBytes Size `yaml:"pusher_bytes" reload:"live"`
	// time limit of compiling and checking a pushed module; default 10s, at most 3m; one
	// at a time per pusher
	Trial Duration `yaml:"trial" reload:"live"`
}

// PluginLimits limit one instance of a plugin and its calls.
type PluginLimits struct {
	// memory of one instance; default 16MiB: Go's runtime needs 4; at most 64MiB: there
	// are up to 8 instances
	Memory Size `yaml:"memory" reload:"live"`
	// maximum processor time of a call that filters, scores or picks among 64
	// candidates, and of each further 64; default 2ms, at most 100ms; a plugin that
	// exceeds it is refused, or quarantined if it does so later
	Call Duration `yaml:"call" reload:"live"`
}

// Signatures lists the keys whose signatures of modules are accepted.
type Signatures struct {
	// true: a module without a signature by one of keys is refused, whether it is pushed,
	// saved in plugin_dir, named by file, or found in the store at start; default false:
	// only an invalid signature by one of keys is refused
	Required bool `yaml:"required" reload:"live"`
	// name: public key, as kvasir plugin keygen prints it; at most 16
	Keys map[string]string `yaml:"keys" reload:"live"`
}

// Trust returns the keys for package plugsign, sorted by name. They must be valid,
// as those of a Config are.
func (s *Signatures) Trust() *plugsign.Trust {
	t := &plugsign.Trust{Required: s.Required}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if key, err := plugsign.ParseKey(s.Keys[name]); err == nil {
			t.Keys = append(t.Keys, plugsign.Key{Name: name, Public: key})
		}
	}
	return t
}

// Envelope limits how far locality may unbalance the load.
type Envelope struct {
	// maximum load of an endpoint relative to the mean, beyond what its cached tokens save
	// the request; load is outstanding prompt tokens and a tenth of the KV memory in use;
	// default 1.5
	MaxLoadRatio float64 `yaml:"max_load_ratio" reload:"live"`
	// load in tokens that is always allowed; default 16384: a single request at low load
	// does not break affinity
	SlackTokens *int `yaml:"slack_tokens" reload:"live"`
	// share of an endpoint's work that one tenant may hold while others compete for it;
	// default 0.5
	MaxShare float64 `yaml:"max_share" reload:"live"`
}

// Conversations bounds the rules that keep conversations together beyond the scores.
// Explain names the rules that changed a choice.
type Conversations struct {
	// hold: a conversation stays on its endpoint while that costs at most this many tokens
	// more than the cheapest endpoint; default 8192, the load at which sticky routers
	// spill; 0 = off
	HoldTokens *int `yaml:"hold_tokens" reload:"live"`
	// spread: a new conversation goes to the endpoint where the fewest have begun, among
	// those that cost at most this many tokens more than the cheapest; default 2048; 0 =
	// off
	SpreadTokens *int `yaml:"spread_tokens" reload:"live"`
	// join: how many conversations begin on each holder of a shared prefix before another
	// endpoint is given a copy, which is then not charged; default 4; 0 = off
	JoinAfter *int `yaml:"join_after" reload:"live"`
}

// Queue configures how requests wait for an endpoint.
type Queue struct {
	// maximum wait; default 30s: clients give up earlier than a longer one; 0s refuses
	// at once, with status 429
	Deadline *Duration `yaml:"deadline" reload:"live"`
	// maximum expected wait: the work ahead of a request divided by the rate at which
	// requests are placed; a request that would wait longer is refused at once, with status
	// 429 and the expected wait as Retry-After; default the deadline
	MaxDelay *Duration `yaml:"max_delay" reload:"live"`
	// maximum number of waiting requests of all profiles; default 1000: each holds its
	// body and a connection; further ones are refused at once, with status 429
	MaxWaiting int `yaml:"max_waiting" reload:"live"`
}

// Sticky configures session affinity.
type Sticky struct {
	// how long a session without requests keeps its endpoint; default 30m: later little
	// of it is cached where others are served. Of more than 32,768 sessions those without
	// requests for the longest time may be forgotten sooner
	TTL Duration `yaml:"ttl" reload:"live"`
}

// ClientHints names the request headers that influence placement.
type ClientHints struct {
	// requests with the same value go to the same endpoint if prompts are unknown or
	// policy pins sessions; default x-kvasir-session
	Session string `yaml:"session" reload:"live"`
	// priority class that the client asks for and policy may grant; default
	// x-kvasir-priority
	Priority string `yaml:"priority" reload:"live"`
	// map of label to header; the header's value is input.request.labels.LABEL of
	// policy, unless the credential has a label of that name; at most 16
	Labels map[string]string `yaml:"labels" reload:"live"`
}

// Limits limit the process.
type Limits struct {
	// concurrent requests; default 4096
	Concurrent int `yaml:"concurrent" reload:"live"`
	// memory of request bodies; default 2GiB
	BytesInFlight Size `yaml:"bytes_in_flight" reload:"live"`
	// memory of the block index; default 256MiB: about 10 million (block, endpoint)
	// pairs
	Index Size `yaml:"index" reload:"restart"`
	// memory of cached rendered and encoded prompts, for each tokenizer; default 256MiB:
	// about 550 prompts of 100k tokens, each of which takes its text and its block
	// hashes; the garbage collector may add as much again
	Prompts Size `yaml:"prompts" reload:"restart"`
	// memory of decisions kept for explain; default 64MiB, at most 10,000 decisions
	Decisions Size `yaml:"decisions" reload:"restart"`
	// how long a router that is stopped waits for requests in progress; default 5m; longer
	// than most answers; choose less than the supervisor's grace period
	DrainTimeout Duration `yaml:"drain_timeout" reload:"restart"`
}

// Telemetry configures logs and metrics.
type Telemetry struct {
	// debug, info, warn or error; default info
	LogLevel string `yaml:"log_level" reload:"live"`
	// json or text; default text
	LogFormat string `yaml:"log_format" reload:"restart"`

	// true: metrics count requests and tokens by tenant, for the first 4,096 tenants;
	// default false: readers of metrics need not learn who the tenants are, and each
	// adds six series
	TenantLabels bool `yaml:"tenant_labels" reload:"live"`

	// log of changes by operators; see kvasir audit verify
	AuditLog AuditLog `yaml:"audit_log" reload:"live"`
	// log of policy decisions, as JSON lines with the field names of OPA's decision
	// logs; never contains prompts, keys or salts
	DecisionLog DecisionLog `yaml:"decision_log" reload:"live"`
}

// DecisionLog configures the log of policy decisions.
type DecisionLog struct {
	// path of the log; default none: nothing is logged
	File string `yaml:"file" reload:"restart"`
	// share of allowed requests that are logged if the policy's audit is sample; default
	// 0.01; denied requests are always logged
	SampleAllow *float64 `yaml:"sample_allow" reload:"restart"`
	// share of allowed requests that are logged with candidates, columns, scores,
	// encrypted block hashes and outcome, for kvasir replay and analyze; default 0; a
	// line takes about 1 KB for each endpoint and at most 6 KB for its prompt
	Placements float64 `yaml:"sample_placements" reload:"restart"`
	// paths to omit, such as /input/tenant/user, in addition to the policy's
	// data.system.log.mask
	Mask []string `yaml:"mask" reload:"restart"`
	// true: sync each entry to disk, and refuse requests with status 503 while the log
	// cannot be written; default false: serve, and count dropped entries
	RequireAudit bool `yaml:"require_audit" reload:"restart"`
	// size at which the file is rotated to FILE.1; default 64MiB
	MaxSize Size `yaml:"max_size" reload:"restart"`
	// number of rotated files to keep; default 8
	Keep int `yaml:"keep" reload:"restart"`
}

// AuditLog configures the log of changes by operators.
type AuditLog struct {
	// append-only file; at 64MiB it is rotated to NAME.NUMBER; default
	// <state_dir>/audit.log
	File string `yaml:"file" reload:"restart"`
}

// Load reads and checks the file at path. The error is an Errors if the file could
// be read and is invalid.
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
			d.errorAt(f.path, f.text)
		}
		c.Absent = d.absent(c)
	}
	if len(d.errors) > 0 {
		return nil, d.sorted(name)
	}
	return c, nil
}

// Read is Load for commands that need a few settings. It checks neither values nor the
// files that they name, such as a key file that does not exist yet.
func Read(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := &Config{File: path}
	d := &decoder{env: os.LookupEnv, lines: map[string]pos{}}
	if !d.document(data, c) || len(d.errors) > 0 {
		return nil, d.sorted(path)
	}
	c.defaults()
	return c, nil
}

// Decode reads a file of another kind by the rules of configuration files: strict keys,
// ${NAME}, errors with their lines. name is used in errors; v points to a struct whose
// fields have yaml tags. check, which may be nil, reports invalid values by path; it is
// called if the file could be decoded. The error is Errors.
func Decode(name string, data []byte, v any, check func(report func(path, text string))) error {
	d := &decoder{env: os.LookupEnv, lines: map[string]pos{}}
	if d.document(data, v) && len(d.errors) == 0 && check != nil {
		check(d.errorAt)
	}
	if len(d.errors) > 0 {
		return d.sorted(name)
	}
	return nil
}

// Errors is all errors of one file, in the order of its lines.
type Errors []Error

// Error is one error of a configuration file.
type Error struct {
	File string
	Line int // from 1; 0 = the file as a whole
	Path string
	Text string // what is wrong, and the fix
}

// String returns file, line, path and text.
func (f Error) String() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	if f.Path == "" {
		return where + ": " + f.Text
	}
	return where + ": " + f.Path + ": " + f.Text
}

// Error implements error: a line for each.
func (f Errors) Error() string {
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
