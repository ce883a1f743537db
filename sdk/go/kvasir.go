// Package kvasir is what a placement plugin in Go or TinyGo imports. A scorer
// is ten lines:
//
//	func init() {
//		kvasir.Score("prefix-first", []string{"matched_ratio", "waiting"}, func(b *kvasir.Batch) error {
//			hit, q, out := b.F32(0), b.F32(1), b.Scores()
//			for i := range out {
//				out[i] = 2*hit[i] - q[i]/(q[i]+4)
//			}
//			return nil
//		})
//	}
//
//	func main() {}
//
// Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o scorer.wasm
//
// or with TinyGo, which makes it a thousand times smaller. Roles are
// registered in init functions. The host calls one instance by one goroutine
// at a time, has several instances that share no memory, and may drop any of
// them: package variables are caches, never the truth.
package kvasir

// ErrAbstain is what a role returns to have no opinion on a batch. It is not
// a fault.
var ErrAbstain error = abstention{}

// ErrUnsupported is returned by a function of an experimental role for input that it
// does not support. The host reports it to the operator and does not count it as a fault.
var ErrUnsupported error = unsupported{}

type unsupported struct{}

func (unsupported) Error() string { return "unsupported" }

// abstention has a type of its own, because TinyGo needs 14 KB of reflection to
// compare two errors.
type abstention struct{}

func (abstention) Error() string { return "abstain" }

// role is what init registered for one role.
type role struct {
	columns []string
	more    []member // of the role's manifest
	call    func(*Batch) error
}

// member is a key with what writes its value.
type member struct {
	key   string
	value func(*text)
}

const (
	roleFilter = iota
	roleScore
	rolePick
	roleObserve
	roleAutoscale // this and what follows are experimental and have no columns
	roleBackendParse
	roleDiscover
	numRoles
)

var roleNames = [numRoles]string{"filter", "score", "pick", "observe", "x_autoscale", "x_backend_parse", "x_discover"}

var (
	name      string
	version   = "0.1.0"
	roles     [numRoles]*role
	published []Column
	imports   []string
	state     = 1
	configure func(config []byte) error
	idle      func()
	lastError string
)

// Score registers the scorer. columns arrive in the order named; a "?" behind
// a name makes it optional. f writes b.Scores().
func Score(plugin string, columns []string, f func(b *Batch) error, opts ...Option) {
	register(roleScore, plugin, columns, f, opts)
}

// Filter registers the filter. f writes b.Drops(): 0 keeps a candidate, 1 + an
// index of reasons drops it.
func Filter(plugin string, columns, reasons []string, f func(b *Batch) error, opts ...Option) {
	register(roleFilter, plugin, columns, f, append(opts, list("reasons", reasons)))
}

// Pick registers the picker. f reads b.SlotScores and b.SlotMask and writes
// b.Order.
func Pick(plugin string, columns []string, f func(b *Batch) error, opts ...Option) {
	register(rolePick, plugin, columns, f, opts)
}

// Observe registers the observer of outcomes, which may publish columns that
// scorers read: f writes b.Published(i) for publishes[i].
func Observe(plugin string, columns []string, publishes []Column, f func(b *Batch) error) {
	published = append(published, publishes...)
	register(roleObserve, plugin, columns, f, nil)
}

// Configure registers what reads the plugin's config, JSON. An error refuses
// to load the plugin with that config.
func Configure(f func(config []byte) error) { configure = f }

// Idle registers what runs while no request waits.
func Idle(f func()) { idle = f }

// Version sets the version in the manifest, "0.1.0" otherwise.
func Version(v string) { version = v }

// State sets the version of what the plugin keeps in kvasir:kv/1.
func State(v int) { state = v }

// Import lists a host module in the manifest. The packages kv, hostlog and
// metrics call it.
func Import(module string) { imports = append(imports, module) }

// Column is a published column.
type Column struct {
	Name    string // with a slash: "my-plugin/rate"
	Default float32
}

// Option adds something to a role's manifest.
type Option func(*role)

// Request names request columns; they arrive as b.ReqU32(0), …
func Request(columns ...string) Option {
	return with("request", func(t *text) { t.columns(columns) })
}

// Terms names the parts of a score that f fills in b.Term(0), … when
// b.Explain() is true.
func Terms(names ...string) Option { return list("terms", names) }

// CostTokens reports that the scores are minus costs in prefill tokens.
func CostTokens() Option {
	return with("unit", func(t *text) { t.add(`"cost_tokens"`) })
}

func list(key string, names []string) Option {
	if len(names) == 0 {
		return func(*role) {}
	}
	return with(key, func(t *text) { t.list(names) })
}

func with(key string, value func(*text)) Option {
	return func(r *role) { r.more = append(r.more, member{key, value}) }
}

func register(at int, plugin string, columns []string, f func(*Batch) error, opts []Option) {
	if name != "" && name != plugin {
		panic("kvasir: one plugin cannot be both " + name + " and " + plugin)
	}
	if roles[at] != nil {
		panic("kvasir: " + plugin + " registers a role twice")
	}
	r := &role{columns: columns, call: f}
	for _, o := range opts {
		o(r)
	}
	name, roles[at] = plugin, r
}
