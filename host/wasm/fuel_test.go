package wasm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// form is how a module is run in a differential test.
type form struct {
	name    string
	metered bool
	sliced  bool
}

// plenty is fuel that no test uses up: memory.grow may be charged for 2^32 pages.
const plenty = 1 << 60

var forms = []form{{name: "unmetered"}, {name: "plain", metered: true}, {name: "sliced", metered: true, sliced: true}}

// engine compiles modules with nothing around them but one host function, env.h.
type engine struct {
	rt wazero.Runtime
}

func newEngine(t testing.TB) *engine {
	t.Helper()
	ctx := context.Background()
	e := &engine{wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithMemoryLimitPages(defaultPages))}
	t.Cleanup(func() { _ = e.rt.Close(ctx) })
	scramble := api.GoFunc(func(_ context.Context,
		stack []uint64) {
		stack[0] = uint64(uint32(stack[0])*0x9e3779b1 ^ 0x55)
	})
	h := e.rt.NewHostModuleBuilder("env").NewFunctionBuilder().WithGoFunction(scramble, []api.ValueType{api.ValueTypeI32},
		[]api.ValueType{api.ValueTypeI32})
	if _, err := h.Export("h").Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// compile compiles code in a form.
func (e *engine) compile(code []byte, f form) (*compiled, error) {
	m, err := parseModule(code)
	if err != nil {
		return nil, err
	}
	c := &compiled{rt: e.rt}
	for name, x := range m.exports {
		if x.kind == kindGlobal {
			c.globals = append(c.globals, name)
		}
	}
	slices.Sort(c.globals)
	if f.metered {
		if code, err = rewriteFuel(m, rewriteOptions{sliced: f.sliced, initial: plenty, pages: defaultPages}); err != nil {
			return nil, err
		}
	}
	if c.CompiledModule, err = e.rt.CompileModule(context.Background(), code); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return c, nil
}

// compiled is a module as compiled in a form.
type compiled struct {
	wazero.CompiledModule
	rt      wazero.Runtime
	globals []string // exported by the module as it was, in order
}

func (c *compiled) open() (api.Module, error) {
	return c.rt.InstantiateModule(context.Background(), c.CompiledModule,
		wazero.NewModuleConfig().WithName("").WithStartFunctions(abi.ExportInitialize))
}

// used returns the units a metered module has spent of plenty.
func used(m api.Module) int64 {
	left := int64(m.ExportedGlobal(fuelGlobal).Get())
	if s := m.ExportedGlobal(sliceGlobal); s != nil {
		left += int64(s.Get())
	}
	return plenty - left
}

// scoreOnce writes a batch of n with its columns 0…11 and calls kvasir_score.
// It returns the batch afterwards.
func scoreOnce(t *testing.T, m api.Module, n int) []byte {
	t.Helper()
	b := SmokeBatch(n, uint64(n))
	cols := make([]column, 12)
	for i := range cols {
		cols[i] = column{kind: colF32, id: i}
	}
	l := place(uint32(n), 12, 2, uint32(abi.Stride(n))*4, 0)
	r, err := m.ExportedFunction(abi.ExportAlloc).Call(context.Background(), uint64(l.total))
	if err != nil {
		t.Fatal(err)
	}
	v, ok := m.Memory().Read(uint32(r[0]), l.total)
	if !ok {
		t.Fatal("arena outside memory")
	}
	writeHeader(v, b, &l, 0, 2)
	writeColumns(v, b, cols, &l, 0)
	clear(v[l.req:l.out])
	fill(words(v[l.out:]), abi.UnwrittenScore)
	st, err := m.ExportedFunction(abi.ExportScore).Call(context.Background(), r[0])
	if err != nil || st[0] != abi.StatusOK {
		t.Fatalf("status %v, %v", st, err)
	}
	v, _ = m.Memory().Read(uint32(r[0]), l.total)
	return bytes.Clone(v)
}

// fixtures are the modules without imports that have a scorer without faults.
func fixtures(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, g := range []string{"../../plugins/*.wasm", "../../plugins/testdata/*.wasm",
		"../../conformance/guests/ok.wasm"} {
		f, err := filepath.Glob(g)
		if err != nil || len(f) == 0 {
			t.Fatalf("no fixtures %s: %v", g, err)
		}
		out = append(out, f...)
	}
	return out
}

// TestRewriteFuel_fixtures runs every fixture unmetered, plain and sliced:
// memory after the call must be equal, fuel the same in both forms and from
// run to run, and grow with the batch.
func TestRewriteFuel_fixtures(t *testing.T) {
	e := newEngine(t)
	for _, file := range fixtures(t) {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		mods := make([]api.Module, len(forms))
		for i, f := range forms {
			c, err := e.compile(code, f)
			if err == nil {
				mods[i], err = c.open()
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", file, f.name, err)
			}
		}
		last := int64(0)
		for _, n := range []int{0, 1, 16, 100, 1000, 4096} {
			want := scoreOnce(t, mods[0], n)
			var cost [2][3]int64
			for i, m := range mods[1:] {
				for k := range 3 { // the first call may grow the arena
					before := used(m)
					if got := scoreOnce(t, m, n); !bytes.Equal(got, want) {
						t.Fatalf("%s, %s, n = %d: results differ", file, forms[i+1].name, n)
					}
					cost[i][k] = used(m) - before
				}
				if cost[i][1] != cost[i][2] {
					t.Errorf("%s, %s, n = %d: fuel %d, then %d", file, forms[i+1].name, n, cost[i][1], cost[i][2])
				}
			}
			if cost[0] != cost[1] {
				t.Errorf("%s, n = %d: fuel plain %v, sliced %v", file, n, cost[0], cost[1])
			}
			if cost[0][1] < last {
				t.Errorf("%s, n = %d: fuel %d, less than %d of a smaller batch", file, n, cost[0][1], last)
			}
			last = cost[0][1]
		}
	}
}

// BenchmarkRewriteFuel shows what metering costs a scorer.
func BenchmarkRewriteFuel(b *testing.B) {
	e := newEngine(b)
	for _, file := range []string{"twelve", "twelve_simd"} {
		code, err := os.ReadFile("../../plugins/testdata/" + file + ".wasm")
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range forms {
			c, err := e.compile(code, f)
			if err != nil {
				b.Fatal(err)
			}
			m, err := c.open()
			if err != nil {
				b.Fatal(err)
			}
			l := place(64, 12, 2, 256, 0)
			r, _ := m.ExportedFunction(abi.ExportAlloc).Call(context.Background(), uint64(l.total))
			v, _ := m.Memory().Read(uint32(r[0]), l.total)
			writeHeader(v, SmokeBatch(64, 1), &l, 0, 2)
			fn := m.ExportedFunction(abi.ExportScore)
			b.Run(file+"/"+f.name, func(b *testing.B) {
				b.ReportAllocs()
				var stack [1]uint64
				for b.Loop() {
					stack[0] = r[0]
					if err := fn.CallWithStack(context.Background(), stack[:]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCall_empty is the floor of a call: fuel set, guest entered, left.
func BenchmarkCall_empty(b *testing.B) {
	rt, err := New(b.Context(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer rt.Close()
	p, err := rt.Load(b.Context(), readFile(b, "../../conformance/guests/ok.wasm"), Options{Instances: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	in, _ := p.pool.get()
	v := in.view(colsOff)
	clear(v) // n = 0
	b.ReportAllocs()
	for b.Loop() {
		if err := in.run(Score, 1_000_000); err != nil {
			b.Fatal(err)
		}
	}
}
