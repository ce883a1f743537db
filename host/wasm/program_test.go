package wasm

import (
	"bytes"
	"context"
	"testing"
)

// program turns bytes into a valid module: functions with loops that end,
// branches, calls of earlier functions, stores and bulk operations. The same
// bytes give the same module.
type program struct {
	data  []byte
	code  []byte
	funcs int
	stmts int // left, so that a program ends soon
}

func (p *program) next(n int) int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b) % n
}

func (p *program) emit(b ...byte) { p.code = append(p.code, b...) }

const (
	progLocals = 6 // the parameter, 4 variables, then one counter per depth
	progDepth  = 3
)

// expr leaves an i32 on the stack.
func (p *program) expr(depth int) {
	switch op := p.next(9); {
	case op < 3 || depth == 0:
		p.emit(opLocalGet, byte(p.next(5)))
	case op == 3:
		p.emit(opI32Const)
		p.code = appendS64(p.code, int64(p.next(256))-128)
	case op == 4: // load within the first page
		p.expr(depth - 1)
		p.emit(opI32Const, 0xff, 0x03, 0x71, 0x28, 2, 0) // & 511, i32.load
	case op == 5 && p.funcs > 0:
		p.expr(depth - 1)
		p.emit(opCall, byte(p.next(p.funcs)))
	default:
		p.expr(depth - 1)
		p.expr(depth - 1)
		// add sub mul xor and shl lt_s eq; div_u traps on zero
		p.emit([]byte{0x6a, 0x6b, 0x6c, 0x73, 0x71, 0x74, 0x48, 0x46, 0x6e}[p.next(9)])
	}
}

// block emits statements; depth loops and blocks may still be opened.
func (p *program) block(depth int) {
	for range 1 + p.next(4) {
		if p.stmts--; p.stmts < 0 {
			return
		}
		p.statement(depth)
	}
}

func (p *program) statement(depth int) {
	switch op := p.next(10); {
	case op < 3 || depth == 0:
		p.expr(2)
		p.emit(0x21, byte(1+p.next(4))) // local.set
	case op == 3:
		p.expr(1)
		p.emit(opI32Const, 0xfc, 0x03, 0x71) // & 508
		p.expr(2)
		p.emit(0x36, 2, 0) // i32.store
	case op == 4:
		p.expr(2)
		p.emit(opIf, blockVoid)
		p.block(depth - 1)
		p.emit(0x05)
		p.block(depth - 1)
		p.emit(opEnd)
	case op == 5:
		p.emit(opBlock, blockVoid)
		p.block(depth - 1)
		p.expr(1)
		p.emit(opBrIf, 0)
		p.block(depth - 1)
		p.emit(opEnd)
	case op == 6: // memory.fill(x & 255, y, z & 255)
		p.expr(1)
		p.emit(opI32Const, 0xff, 0x01, 0x71)
		p.expr(1)
		p.expr(1)
		p.emit(opI32Const, 0xff, 0x01, 0x71, prefixMisc, miscMemoryFill, 0)
	case op == 7:
		p.emit(opI32Const, byte(p.next(2)), opMemoryGrow, 0, 0x21, byte(1+p.next(4)))
	default: // a loop that turns up to 8 times
		counter := byte(progLocals - 1 + progDepth - depth)
		p.emit(opI32Const, byte(1+p.next(8)), 0x21, counter, opLoop, blockVoid)
		p.block(depth - 1)
		p.emit(opLocalGet, counter, opI32Const, 1, 0x6b, opLocalTee, counter, opBrIf, 0, opEnd)
	}
}

// module returns the binary module of data.
func (p *program) module() []byte {
	n := 1 + p.next(4)
	var bodies [][]byte
	for range n {
		p.code = []byte{1, progLocals - 2 + progDepth + 1, typeI32}
		p.stmts = 24
		p.block(progDepth)
		p.expr(2)
		p.emit(opEnd)
		bodies = append(bodies, p.code)
		p.funcs++
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	sec := func(id byte, b []byte) { out = append(appendU32(append(out, id), uint32(len(b))), b...) }
	sec(secType, []byte{1, 0x60, 1, typeI32, 1, typeI32})
	sec(secFunc, append([]byte{byte(n)}, make([]byte, n)...))
	sec(secMemory, []byte{1, 1, 1, 8})
	sec(secExport, append([]byte{2, 1, 'm', kindMemory, 0, 1, 'f', kindFunc}, byte(n-1)))
	code := []byte{byte(n)}
	for _, b := range bodies {
		code = append(appendU32(code, uint32(len(b))), b...)
	}
	sec(secCode, code)
	return out
}

// outcome is what a run shows.
type outcome struct {
	result uint64
	trap   bool
	memory []byte
	fuel   int64
}

func runProgram(t *testing.T, e *engine, code []byte, f form) (o outcome) {
	t.Helper()
	m, err := e.open(code, f)
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	defer m.Close(context.Background())
	for _, arg := range []uint64{0, 1, 77} {
		r, err := m.ExportedFunction("f").Call(context.Background(), arg)
		if err != nil {
			o.trap = true
			break
		}
		o.result = o.result*31 + r[0]
	}
	v, _ := m.Memory().Read(0, m.Memory().Size())
	o.memory = bytes.Clone(v)
	if f.metered {
		o.fuel = used(m)
	}
	return o
}

// compareForms runs one made-up program unmetered, plain, sliced and plain
// again: results, traps and memory must be equal, and so must the fuel.
func compareForms(t *testing.T, e *engine, data []byte) (trapped bool) {
	t.Helper()
	code := (&program{data: data}).module()
	want := runProgram(t, e, code, forms[0])
	fuel := int64(-1)
	for _, fm := range []form{forms[1], forms[2], forms[1]} {
		got := runProgram(t, e, code, fm)
		if got.result != want.result || got.trap != want.trap || !bytes.Equal(got.memory, want.memory) {
			t.Fatalf("%s: got %d, trap %v; unmetered %d, trap %v", fm.name, got.result, got.trap, want.result, want.trap)
		}
		if fuel < 0 {
			fuel = got.fuel
		}
		if got.fuel != fuel || got.fuel <= 0 {
			t.Fatalf("%s: fuel %d, want %d", fm.name, got.fuel, fuel)
		}
	}
	return want.trap
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(splitmix(&seed))
	}
	return b
}

func TestRewriteFuel_programs(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 50
	}
	e := newEngine(t)
	traps := 0
	for seed := range uint64(n) {
		if compareForms(t, e, randomBytes(seed, 600)) {
			traps++
		}
	}
	t.Logf("%d programs, %d of them trap", n, traps)
	if traps == 0 || traps == n {
		t.Errorf("%d of %d programs trap: the generator is one-sided", traps, n)
	}
}

func FuzzRewriteFuel_programs(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 200))
	}
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, data []byte) { compareForms(t, e, data) })
}

// accepts tells whether the engine compiles code.
func (e *engine) accepts(code []byte) bool {
	m, err := e.rt.CompileModule(context.Background(), code)
	if err != nil {
		return false
	}
	_ = m.Close(context.Background())
	return true
}

// FuzzRewriteFuel_bytes feeds the rewriter foreign bytes: it must not panic,
// and what it makes of a module the engine accepts the engine must accept.
func FuzzRewriteFuel_bytes(f *testing.F) {
	for _, file := range fixtures(f) {
		f.Add(readFile(f, file))
	}
	f.Add((&program{data: []byte("some program")}).module())
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
