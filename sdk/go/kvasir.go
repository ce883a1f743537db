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

import "errors"

// ErrAbstain is what a role returns to have no opinion on a batch. It is not
// a fault.
var ErrAbstain = errors.New("abstain")

// role is what init registered for one role.
type role struct {
	columns []string
	extra   string // further members of the role's manifest, each with its comma
	call    func(*Batch) error
}

const (
	roleFilter = iota
	roleScore
	rolePick
	roleObserve
	numRoles
)

var (
	name      string
	version   = "0.1.0"
	roles     [numRoles]*role
	publishes string
	imports   string
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
// scorers read: f writes b.Published(i) for published[i].
func Observe(plugin string, columns []string, published []Column, f func(b *Batch) error) {
	for _, c := range published {
		if publishes != "" {
			publishes += ","
		}
		publishes += `{"name":` + quote(c.Name) + `,"default":` + number(c.Default) + `}`
	}
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
func Import(module string) {
	if imports != "" {
		imports += ","
	}
	imports += quote(module)
}

// Column is a published column.
type Column struct {
	Name    string // with a slash: "my-plugin/rate"
	Default float32
}

// Option adds something to a role's manifest.
type Option func(*role)

// Request names request columns; they arrive as b.ReqU32(0), …
func Request(columns ...string) Option { return refs("request", columns) }

// Terms names the parts of a score that f fills in b.Term(0), … when
// b.Explain() is true.
func Terms(names ...string) Option { return list("terms", names) }

// CostTokens says that the scores are minus costs in prefill tokens.
func CostTokens() Option {
	return func(r *role) { r.extra += `,"unit":"cost_tokens"` }
}

func list(key string, names []string) Option {
	return func(r *role) {
		if len(names) == 0 {
			return
		}
		s := ""
		for i, n := range names {
			if i > 0 {
				s += ","
			}
			s += quote(n)
		}
		r.extra += `,"` + key + `":[` + s + `]`
	}
}

func refs(key string, names []string) Option {
	return func(r *role) { r.extra += `,"` + key + `":` + columnList(names) }
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
