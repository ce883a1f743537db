package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/internal/leb"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/tetratelabs/wazero/api"
)

// outcome is what a run shows.
type outcome struct {
	results []uint64
	trap    string // of the start section or of the last call, "" = none
	memory  [sha256.Size]byte
	globals []uint64
	ticks   int64 // turns of loops, and 50 for a call, of a generated module
	began   int64 // units that instantiating took
	fuel    int64 // units in all
}

func (o *outcome) equal(p *outcome) bool {
	return slices.Equal(o.results, p.results) && o.trap == p.trap && o.memory == p.memory &&
		slices.Equal(o.globals, p.globals) && o.fuel == p.fuel
}

func (o *outcome) String() string {
	return fmt.Sprintf("results %x, trap %q, memory %x, globals %x, fuel %d", o.results, o.trap, o.memory[:6], o.globals,
		o.fuel)
}

// trapOf returns what a guest did wrong, without the place; ok is false if the
// error is another.
func trapOf(err error) (trap string, ok bool) {
	if err == nil {
		return "", true
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if strings.HasSuffix(line, ": out of bounds memory access") ||
		strings.HasSuffix(line, ": out of bounds table access") {
		return line, true // a segment, when instantiating
	}
	_, trap, ok = strings.Cut(line, "wasm error: ")
	return trap, ok
}

// run instantiates a module and calls every exported function, in three rounds,
// with numbers that follow from the round. fuel is what a metered one has left for
// that, 0 = plenty. The error is the engine's, not the guest's.
func (c *compiled) run(metered bool, fuel int64) (o outcome, err error) {
	m, err := c.open()
	if err != nil {
		var ok bool
		if o.trap, ok = trapOf(err); ok {
			err = nil
		}
		return o, err
	}
	defer m.Close(context.Background())
	if metered {
		o.began = used(m)
		if fuel > 0 {
			m.ExportedGlobal(fuelGlobal).(api.MutableGlobal).Set(uint64(fuel))
		}
	}
	names := slices.Sorted(maps.Keys(m.ExportedFunctionDefinitions()))
	for round := uint64(0); round < 3 && o.trap == ""; round++ {
		for _, name := range names {
			f := m.ExportedFunction(name)
			results, err := f.Call(context.Background(), arguments(f.Definition(), round)...)
			var ok bool
			if o.trap, ok = trapOf(err); !ok {
				return o, err
			}
			if err != nil {
				break
			}
			o.results = append(o.results, numbers(f.Definition().ResultTypes(), results)...)
		}
	}
	if mem := m.Memory(); mem != nil {
		v, _ := mem.Read(0, mem.Size())
		o.memory = sha256.Sum256(v)
	}
	o.globals = c.globalsOf(m)
	if g := m.ExportedGlobal("ticks"); g != nil {
		o.ticks = genTicks - int64(int32(g.Get()))
	}
	if metered {
		o.fuel = used(m)
	}
	return o, nil
}

// arguments are as many numbers as a function takes; v128 takes two, and a
// reference is null.
func arguments(d api.FunctionDefinition, round uint64) (args []uint64) {
	seed := round
	for _, t := range d.ParamTypes() {
		x := splitmix(&seed)
		switch t {
		case api.ValueTypeI32, api.ValueTypeF32:
			args = append(args, uint64(uint32(x)&0x7f7fffff)) // no infinity, no NaN
		case typeV128:
			args = append(args, x, splitmix(&seed))
		case typeFuncref, api.ValueTypeExternref:
			args = append(args, 0)
		default:
			args = append(args, x&0x7fefffffffffffff)
		}
	}
	return args
}

// numbers returns results without references, which are addresses.
func numbers(types []api.ValueType, results []uint64) (out []uint64) {
	for _, t := range types {
		switch t {
		case typeV128:
			out, results = append(out, results[0], results[1]), results[2:]
			continue
		case typeFuncref, api.ValueTypeExternref:
			out = append(out, uint64(b2i(results[0] != 0)))
		case api.ValueTypeI32, api.ValueTypeF32:
			out = append(out, results[0]&0xffffffff)
		default:
			out = append(out, results[0])
		}
		results = results[1:]
	}
	return out
}

// globalsOf returns the module's exported globals of numbers.
func (c *compiled) globalsOf(m api.Module) (out []uint64) {
	for _, name := range c.globals {
		if g := m.ExportedGlobal(name); g != nil && g.Type() != typeFuncref && g.Type() != api.ValueTypeExternref &&
			g.Type() != typeV128 {
			out = append(out, g.Get())
		}
	}
	return out
}

// seen counts what a differential run came across.
type seen struct {
	modules, trapped, sliced, starved int
	results                           int
	opcodes                           map[[2]uint32]int
}

func (s *seen) String() string {
	return fmt.Sprintf("%d modules, %d trap, %d results, %d take more than a slice of fuel, %d starved, %d different "+
		"instructions",
		s.modules, s.trapped, s.results, s.sliced, s.starved, len(s.opcodes))
}

// compare runs a module unmetered, plain, sliced and plain again: results, traps,
// memory and globals must be equal, and so must the fuel of the metered ones. With
// half of the fuel it must trap, twice in the same state. No turn of a loop and no
// call may be free. The error says what differs.
func (e *engine) compare(code []byte, s *seen) error {
	var made [3]*compiled
	for i, f := range forms {
		c, err := e.compile(code, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		defer c.Close(context.Background())
		made[i] = c
	}
	want, err := made[0].run(false, 0)
	if err != nil {
		return err
	}
	for i, at := range []int{1, 2, 1} {
		got, err := made[at].run(true, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", forms[at].name, err)
		}
		if i == 0 {
			want.fuel, want.began = got.fuel, got.began
		}
		if !got.equal(&want) {
			return fmt.Errorf("%s: got %v\nwant %v", forms[at].name, &got, &want)
		}
	}
	if want.fuel < want.ticks/2 {
		return fmt.Errorf("%d units for %d ticks", want.fuel, want.ticks)
	}
	s.modules++
	s.results += len(want.results)
	s.trapped += b2i(want.trap != "")
	s.sliced += b2i(want.fuel > sliceUnits)
	rest := want.fuel - want.began
	if rest < 2 {
		return nil
	}
	s.starved++
	a, err := made[1].run(true, rest/2)
	if err != nil {
		return err
	}
	if b, err := made[1].run(true, rest/2); err != nil || a.trap != "unreachable" || !a.equal(&b) {
		return fmt.Errorf("with half of the fuel: %v\nagain %v (%v)", &a, &b, err)
	}
	return nil
}

// count adds the instructions of a module to s.
func (s *seen) count(code []byte) {
	m, err := parseModule(code)
	if err != nil {
		return
	}
	for _, sec := range m.sections {
		if sec.id != secCode {
			continue
		}
		r := &reader{leb.Reader{Bytes: sec.body}}
		for n := r.Count(); n > 0; n-- {
			f := &reader{leb.Reader{Bytes: r.Take(r.U32())}}
			for k := f.Count(); k > 0; k-- {
				f.U32()
				f.Byte()
			}
			for f.More() {
				op, sub := f.instruction()
				s.opcodes[[2]uint32{uint32(op), sub}]++
			}
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(splitmix(&seed) >> 32)
	}
	return b
}

// generated runs generated modules from seed on until stop, and returns what it
// came across.
func generated(t *testing.T, seed uint64, stop func(n int) bool) *seen {
	t.Helper()
	e, s := newEngine(t), &seen{opcodes: map[[2]uint32]int{}}
	for n := 0; !stop(n); n++ {
		data := randomBytes(seed+uint64(n), 200+int(seed+uint64(n))%1000)
		code := (&generator{data: data}).module()
		s.count(code)
		if err := e.compare(code, s); err != nil {
			t.Fatalf("seed %d: %v\nmodule %s", seed+uint64(n), err, hex.EncodeToString(code))
		}
	}
	t.Log(s)
	return s
}

// TestRewriteFuel_generated runs generated modules in every form, and sees that
// the generator is not one-sided.
func TestRewriteFuel_generated(t *testing.T) {
	count := 2000
	if testing.Short() || testdeps.Race {
		count = 100
	}
	s := generated(t, 1, func(n int) bool { return n >= count })
	if count < 2000 {
		return
	}
	if s.trapped == 0 || s.trapped == s.modules || s.results < s.modules/2 || s.sliced == 0 {
		t.Errorf("one-sided: %+v", s)
	}
	for op := range uint32(256) {
		for sub := range uint32(256) {
			if k := [2]uint32{op, sub}; known(byte(op), sub) && s.opcodes[k] == 0 {
				t.Errorf("instruction %#x %d does not occur", op, sub)
			}
		}
	}
}

// known reports whether an instruction is in the feature set.
func known(op byte, sub uint32) bool {
	if op != prefixMisc && op != prefixSIMD && sub > 0 {
		return false
	}
	b := append([]byte{op}, make([]byte, 32)...)
	if op == prefixMisc || op == prefixSIMD {
		b = append(leb.AppendU32([]byte{op}, sub), make([]byte, 32)...)
	}
	r := &reader{leb.Reader{Bytes: b}}
	r.instruction()
	return r.Err == nil
}

// TestRewriteFuel_same: the same bytes give the same module.
func TestRewriteFuel_same(t *testing.T) {
	for seed := range uint64(20) {
		a, b := (&generator{data: randomBytes(seed, 500)}).module(), (&generator{data: randomBytes(seed, 500)}).module()
		if !slices.Equal(a, b) {
			t.Fatalf("seed %d: two modules", seed)
		}
	}
}

func FuzzRewriteFuel_generated(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 200))
	}
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := e.compare((&generator{data: data}).module(), &seen{}); err != nil {
			t.Fatal(err)
		}
	})
}

// accepts reports whether the engine compiles code.
func (e *engine) accepts(code []byte) bool {
	m, err := e.rt.CompileModule(context.Background(), code)
	if err != nil {
		return false
	}
	_ = m.Close(context.Background())
	return true
}

// FuzzRewriteFuel_bytes feeds the rewriter foreign bytes: it must not panic,
// and the engine must accept the rewritten form of each module that it accepts.
func FuzzRewriteFuel_bytes(f *testing.F) {
	for _, file := range fixtures(f) {
		f.Add(readFile(f, file))
	}
	f.Add((&generator{data: randomBytes(1, 300)}).module())
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, code []byte) {
		m, err := parseModule(code)
		if err != nil || len(code) > 4096 {
			return
		}
		for _, fm := range forms[1:] {
			out, err := rewriteFuel(m, rewriteOptions{sliced: fm.sliced, initial: 1000, pages: defaultPages})
			if err != nil {
				continue
			}
			if !m.memory || !e.accepts(code) {
				continue
			}
			if !e.accepts(out) {
				t.Fatalf("%s: the engine refuses what the rewriter made", fm.name)
			}
		}
	})
}
