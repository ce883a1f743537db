package host_test

import (
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kvasir-router/kvasir/"

// mayImport is the whole import policy of the project: for each package, the
// packages of this module (ours) and the packages of other modules (theirs) that it may
// import. Both lists are closed: an import that is not listed fails the test, and so
// does a listed import that is unused. An addition to the list needs a reason.
//
// The order follows the request path: packages that hold state are low in the order,
// and the stages of a request import them (RATIONALE.md, "Why does the import order
// look like this?").
var mayImport = map[string]struct{ ours, theirs []string }{
	"abi":                      {},
	"abi/gen":                  {},
	"host/internal/snapshot":   {},
	"host/internal/timing":     {},
	"host/internal/atomicfile": {},
	"host/internal/filelock":   {},
	"host/internal/leb":        {},
	"host/internal/spelling":   {},
	"host/internal/jsonscan":   {},
	"host/internal/secret":     {},
	"host/testdeps":            {},
	"host/dialect":             {},
	"host/llmapi": {
		ours: []string{
			"abi",
			"host/dialect",
			"host/internal/jsonscan",
		},
	},
	"host/exchange":  {ours: []string{"host/llmapi"}},
	"host/blockhash": {theirs: []string{"github.com/cespare/xxhash/v2"}},
	"host/endpoint":  {},
	"host/isolation": {ours: []string{"host/internal/atomicfile"}},
	"host/identity": {
		ours: []string{
			"host/internal/atomicfile",
			"host/internal/filelock",
			"host/internal/secret",
		},
	},
	"host/identity/jwt": {
		ours:   []string{"host/identity"},
		theirs: []string{"github.com/go-jose/go-jose/v4"},
	},
	"host/policy": {
		ours: []string{
			"host/identity",
			"host/internal/atomicfile",
			"host/internal/spelling",
			"policies",
		},
		theirs: []string{"github.com/open-policy-agent/opa/v1"},
	},
	"host/quota":            {},
	"host/kvevents":         {theirs: []string{"github.com/cespare/xxhash/v2"}},
	"host/kvevents/fakepub": {},

	"host/tokenizer":            {},
	"host/tokenizer/bpe":        {},
	"host/tokenizer/hf":         {theirs: []string{"github.com/daulet/tokenizers"}},
	"host/tokenizer/demo":       {ours: []string{"host/tokenizer/bpe"}},
	"host/tokenizer/demo/train": {ours: []string{"host/tokenizer/bpe"}},
	"host/tokenizer/jinja":      {ours: []string{"host/internal/jsonscan"}},
	"host/tokenizer/chat/parity": {
		ours: []string{
			"host/llmapi",
			"host/tokenizer/chat",
		},
	},
	"host/tokenizer/chat": {
		ours: []string{
			"host/blockhash",
			"host/internal/jsonscan",
			"host/llmapi",
			"host/tokenizer",
			"host/tokenizer/jinja",
		},
	},

	"host/wasm": {
		ours: []string{
			"abi",
			"host/internal/leb",
		},
		theirs: []string{
			"github.com/santhosh-tekuri/jsonschema/v6",
			"github.com/tetratelabs/wazero",
			"golang.org/x/text",
		},
	},
	"host/hostmod": {
		ours: []string{
			"abi",
			"host/wasm",
		},
	},
	"host/plugstore": {ours: []string{"host/internal/atomicfile"}},
	"host/plugsign":  {ours: []string{"host/internal/leb"}},
	"plugins":        {},
	"policies":       {},

	"host/queue":   {ours: []string{"host/internal/timing"}},
	"host/kvindex": {},
	"host/backend": {
		ours: []string{
			"host/blockhash",
			"host/dialect",
			"host/endpoint",
			"host/kvevents",
			"host/kvindex",
			"host/llmapi",
		},
		theirs: []string{"github.com/cespare/xxhash/v2"},
	},
	"host/scheduler": {
		ours: []string{
			"abi",
			"host/blockhash",
			"host/dialect",
			"host/endpoint",
			"host/exchange",
			"host/identity",
			"host/internal/timing",
			"host/isolation",
			"host/llmapi",
			"host/policy",
			"host/quota",
			"host/tokenizer",
		},
	},
	"host/proxy": {
		ours: []string{
			"host/exchange",
			"host/identity",
			"host/internal/jsonscan",
			"host/internal/secret",
			"host/internal/timing",
			"host/llmapi",
		},
		theirs: []string{
			"github.com/valyala/fasthttp",
			"golang.org/x/sys/unix",
		},
	},
	"host/telemetry/metric": {},
	"host/telemetry": {
		ours: []string{
			"host/internal/timing",
			"host/telemetry/metric",
		},
		theirs: []string{
			"github.com/prometheus/client_golang",
			"github.com/prometheus/client_model",
			"google.golang.org/protobuf",
		},
	},
	"host/telemetry/audit": {
		ours: []string{
			"host/internal/atomicfile",
			"host/internal/filelock",
			"host/internal/secret",
		},
	},
	"host/telemetry/placements": {},
	"host/telemetry/decisions": {
		ours: []string{
			"host/internal/secret",
			"host/policy",
			"host/telemetry/placements",
		},
	},
	"host/admin": {
		ours: []string{
			"host/autoscale",
			"host/identity",
			"host/internal/secret",
			"host/kvindex",
			"host/plugstore",
			"host/policy",
			"host/proxy",
			"host/scheduler",
			"host/telemetry/audit",
		},
	},
	"host/config": {
		ours: []string{
			"host/dialect",
			"host/endpoint",
			"host/exchange",
			"host/identity",
			"host/identity/jwt",
			"host/internal/spelling",
			"host/llmapi",
			"host/plugsign",
			"host/telemetry/decisions",
			"plugins",
		},
		theirs: []string{"github.com/goccy/go-yaml"},
	},

	"host/simengine": {
		ours: []string{
			"host/tokenizer/bpe",
			"host/tokenizer/jinja",
		},
	},
	"host/replay": {
		ours: []string{
			"host/llmapi",
			"host/telemetry/placements",
			"host/tokenizer",
		},
	},

	"host/autoscale": {},
	"host/discovery": {ours: []string{"host/endpoint"}},
	"host/fleet": {
		ours: []string{
			"host/autoscale",
			"host/backend",
			"host/config",
			"host/dialect",
			"host/discovery",
			"host/endpoint",
			"host/exchange",
			"host/kvindex",
			"host/policy",
			"host/scheduler",
			"host/telemetry",
			"host/telemetry/metric",
		},
	},
	"host/scaling": {
		ours: []string{
			"host/autoscale",
			"host/config",
			"host/endpoint",
			"host/exchange",
			"host/scheduler",
			"host/telemetry",
			"host/telemetry/metric",
		},
	},
	"host/replay/elastic": {
		ours: []string{
			"host/autoscale",
			"host/replay",
			"host/replay/virtual",
			"host/simengine",
		},
	},
	"host/replay/analyze": {
		ours: []string{
			"host/replay",
			"host/telemetry/placements",
		},
	},
	"host/replay/virtual": {
		ours: []string{
			"host/replay",
			"host/simengine",
		},
	},
	"host/replay/router": {
		ours: []string{
			"host/endpoint",
			"host/exchange",
			"host/identity",
			"host/kvindex",
			"host/llmapi",
			"host/policy",
			"host/replay/virtual",
			"host/scheduler",
			"host/simengine",
			"host/tokenizer",
		},
	},
	"host/replay/scenario": {
		ours: []string{
			"host/config",
			"host/replay",
			"host/replay/router",
			"host/replay/virtual",
			"host/scheduler",
			"host/simengine",
		},
	},

	"host/plugins": {
		ours: []string{
			"abi",
			"host/admin",
			"host/autoscale",
			"host/backend",
			"host/config",
			"host/dialect",
			"host/discovery",
			"host/endpoint",
			"host/hostmod",
			"host/plugincheck",
			"host/plugsign",
			"host/plugstore",
			"host/scheduler",
			"host/telemetry",
			"host/telemetry/metric",
			"host/wasm",
			"plugins",
		},
	},

	"host/collectors": {
		ours: []string{
			"host/backend",
			"host/endpoint",
			"host/identity",
			"host/kvindex",
			"host/proxy",
			"host/queue",
			"host/scheduler",
			"host/telemetry",
			"host/telemetry/audit",
			"host/telemetry/metric",
		},
	},

	"host/route": {
		ours: []string{
			"host/exchange",
			"host/identity",
			"host/llmapi",
			"host/proxy",
			"host/queue",
			"host/scaling",
			"host/scheduler",
			"host/telemetry/decisions",
			"host/telemetry/placements",
		},
	},
	"host/status": {
		ours: []string{
			"host/admin",
			"host/autoscale",
			"host/backend",
			"host/endpoint",
			"host/identity",
			"host/kvindex",
			"host/llmapi",
			"host/proxy",
			"host/route",
			"host/scheduler",
			"host/telemetry/audit",
		},
	},

	"host/statedir": {
		ours: []string{
			"host/internal/atomicfile",
			"host/internal/filelock",
			"host/policy",
		},
	},
	"host/policy/live": {
		ours: []string{
			"host/admin",
			"host/config",
			"host/policy",
			"host/telemetry",
			"host/telemetry/metric",
		},
	},
	"host/rules": {
		ours: []string{
			"host/admin",
			"host/config",
			"host/dialect",
			"host/fleet",
			"host/identity",
			"host/identity/jwt",
			"host/internal/snapshot",
			"host/llmapi",
			"host/plugins",
			"host/policy",
			"host/policy/live",
			"host/proxy",
			"host/scaling",
			"host/scheduler",
			"host/telemetry",
			"host/telemetry/decisions",
			"host/telemetry/metric",
			"host/tokenizer",
			"host/tokenizer/bpe",
			"host/tokenizer/chat",
			"host/tokenizer/hf",
		},
	},

	"host": {
		ours: []string{
			"host/admin",
			"host/autoscale",
			"host/backend",
			"host/collectors",
			"host/config",
			"host/endpoint",
			"host/fleet",
			"host/identity",
			"host/internal/secret",
			"host/isolation",
			"host/kvindex",
			"host/plugins",
			"host/policy",
			"host/policy/live",
			"host/proxy",
			"host/queue",
			"host/route",
			"host/rules",
			"host/scaling",
			"host/scheduler",
			"host/statedir",
			"host/status",
			"host/telemetry",
			"host/telemetry/audit",
			"host/telemetry/decisions",
			"host/telemetry/metric",
		},
	},

	"cmd/kvasir": {
		ours: []string{
			"abi",
			"host",
			"host/admin",
			"host/autoscale",
			"host/config",
			"host/hostmod",
			"host/identity",
			"host/plugincheck",
			"host/plugsign",
			"host/policy",
			"host/replay",
			"host/replay/analyze",
			"host/replay/scenario",
			"host/rules",
			"host/scheduler",
			"host/simengine",
			"host/statedir",
			"host/telemetry",
			"host/telemetry/audit",
			"host/tokenizer/demo",
			"host/tokenizer/hf",
			"host/wasm",
			"policies",
		},
		theirs: []string{"github.com/spf13/cobra"},
	},

	"conformance":        {ours: []string{"conformance/guests"}},
	"conformance/guests": {},
	"host/plugincheck": {
		ours: []string{
			"abi",
			"host/hostmod",
			"host/wasm",
		},
	},
	"conformance/sdk":     {},
	"conformance/oracle":  {ours: []string{"host/testdeps"}},
	"conformance/harness": {},
	"conformance/fleet":   {},
	"conformance/engine":  {},
	"conformance/bench":   {},
}

func ofConformance(path string) bool {
	return path == "conformance" || strings.HasPrefix(path, "conformance/")
}

// TestImports_harness checks that packages outside conformance import none of its packages.
func TestImports_harness(t *testing.T) {
	for path, rule := range mayImport {
		if !strings.HasPrefix(path, "conformance") && slices.ContainsFunc(rule.ours, ofConformance) {
			t.Errorf("%s may import %s", path, rule.ours)
		}
	}
}

// testOnly are packages that only tests, and these packages themselves, may import: they
// need files that make deps installs, or end a test.
var testOnly = map[string]bool{
	"host/testdeps": true, "conformance/oracle": true, "host/kvevents/fakepub": true,
	"conformance/harness": true, "conformance/guests": true, "conformance": true,
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".." {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
			return fs.SkipDir // a separate module
		}
		p, err := build.ImportDir(path, 0)
		if err != nil || len(p.GoFiles) == 0 {
			return nil // not a Go package
		}
		if path, err = filepath.Rel("..", path); err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		seen[path] = true
		checkImports(t, path, p.Imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range mayImport {
		if !seen[path] {
			t.Errorf("%s: in mayImport but not in the tree", path)
		}
	}
}

func checkImports(t *testing.T, path string, imports []string) {
	t.Helper()
	rule, ok := mayImport[path]
	if !ok {
		t.Errorf("%s: not in mayImport", path)
		return
	}
	unused := map[string]bool{}
	for _, o := range rule.ours {
		unused[o] = true
	}
	for _, imp := range imports {
		if o, ok := strings.CutPrefix(imp, module); ok {
			if testOnly[o] && !testOnly[path] {
				t.Errorf("%s imports %s, which is for tests only", path, o)
			}
			if !slices.Contains(rule.ours, o) {
				t.Errorf("%s imports %s", path, o)
			}
			delete(unused, o)
		} else if host, _, _ := strings.Cut(imp, "/"); strings.Contains(host, ".") {
			if !slices.ContainsFunc(rule.theirs, func(m string) bool {
				return imp == m ||
					strings.HasPrefix(imp, m+"/")
			}) {
				t.Errorf("%s imports %s", path, imp)
			}
		}
	}
	for _, o := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s may import %s but does not: delete it from mayImport", path, o)
	}
}
