package wasm

import "github.com/kvasir-router/kvasir/host/internal/leb"

// generator turns bytes into a valid module that ends: of any shape that
// validation allows, with every instruction of the feature set. The same bytes
// give the same module; when they are used up, the rest is as small as can be.
type generator struct {
	data    []byte
	types   []funcType
	funcs   []uint32 // types of the module's own functions
	mutable []byte   // types of its mutable globals, the budget apart
	budget  uint32   // index of the global that ends the run
}

// genTypes are the types of locals, globals and block parameters.
var genTypes = []byte{typeI32, typeI64, typeF32, typeF64, typeV128}

// genTicks is how many turns of loops a run may take in all, and genCall how
// many a call costs: deep recursion would end in a stack overflow, which comes
// sooner for a metered frame.
const (
	genTicks = 4000
	genCall  = 50
)

// genImport is the host function that generated modules import, of type 1.
var genImport = funcType{inI, inI}

func (g *generator) next(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	v := int(g.data[0])
	g.data = g.data[1:]
	if n > 256 && len(g.data) > 0 {
		v, g.data = v<<8|int(g.data[0]), g.data[1:]
	}
	return v % n
}

// function chooses a function: the import or one of the module's.
func (g *generator) function(next func(int) int) uint32 { return uint32(next(1 + len(g.funcs))) }

func (g *generator) typeOf(f uint32) funcType {
	if f == 0 {
		return genImport
	}
	return g.types[g.funcs[f-1]]
}

// global returns the mutable global of type t.
func (g *generator) global(t byte) uint32 {
	for i, m := range g.mutable {
		if m == t {
			return uint32(i)
		}
	}
	panic("BUG: no global of the type")
}

// typeWith returns a type whose first result is t.
func (g *generator) typeWith(t byte) uint32 {
	at := g.next(len(g.types))
	for range g.types {
		if r := g.types[at].results; len(r) > 0 && r[0] == t {
			break
		}
		at = (at + 1) % len(g.types)
	}
	return uint32(at)
}

func (g *generator) someTypes(n int) []byte {
	out := make([]byte, g.next(n))
	for i := range out {
		out[i] = genTypes[g.next(len(genTypes))]
	}
	return out
}

// module returns the binary module of the bytes.
func (g *generator) module() []byte {
	g.types = []funcType{{nil, nil}, genImport}
	for _, t := range append(genTypes, typeFuncref) {
		g.types = append(g.types, funcType{g.someTypes(3), append([]byte{t}, g.someTypes(3)...)})
	}
	g.types = append(g.types, funcType{g.someTypes(5), nil})
	for range 1 + g.next(4) {
		g.funcs = append(g.funcs, uint32(g.next(len(g.types))))
	}
	g.funcs = append(g.funcs, 1) // the exported one
	g.mutable, g.budget = genTypes, uint32(len(genTypes))
	start := g.next(4) == 1
	if start {
		g.funcs = append(g.funcs, 0)
	}
	bodies := leb.AppendU32(nil, uint32(len(g.funcs)))
	for _, t := range g.funcs {
		f := g.body(g.types[t])
		bodies = append(leb.AppendU32(bodies, uint32(len(f))), f...)
	}
	return g.assemble(start, bodies)
}

// body returns a function's body.
func (g *generator) body(typ funcType) []byte {
	b := &body{generator: g, result: typ.results, labels: [][]byte{typ.results}, left: 30}
	extra := append(append(g.someTypes(4), typeFuncref), genTypes...)
	b.locals = append(append(b.locals, typ.params...), extra...)
	b.code = leb.AppendU32(nil, uint32(len(extra)))
	for _, t := range extra {
		b.emit(1, t)
	}
	b.tick(genCall)
	b.statements(4)
	b.values(typ.results, 4)
	b.emit(opEnd)
	return b.code
}

// assemble puts the sections together.
func (g *generator) assemble(start bool, bodies []byte) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	sec := func(id byte, parts ...byte) {
		out = append(leb.AppendU32(append(out, id), uint32(len(parts))), parts...)
	}
	types := []byte{byte(len(g.types))}
	for _, t := range g.types {
		types = append(append(append(types, 0x60, byte(len(t.params))), t.params...), byte(len(t.results)))
		types = append(types, t.results...)
	}
	sec(secType, types...)
	sec(secImport, 1, 3, 'e', 'n', 'v', 1, 'h', kindFunc, 1)
	funcs := []byte{byte(len(g.funcs))}
	for _, t := range g.funcs {
		funcs = append(funcs, byte(t))
	}
	sec(secFunc, funcs...)
	sec(secTable, 1, typeFuncref, 1, 8, 12)
	sec(secMemory, 1, 1, 1, 3)
	globals := []byte{byte(len(g.mutable) + 1)}
	zeros := map[byte][]byte{typeI32: {opI32Const, 5}, typeI64: {opI64Const, 6}, typeF32: {0x43, 0, 0, 0, 0x3f},
		typeF64:  {0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f},
		typeV128: {prefixSIMD, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
	for _, t := range g.mutable {
		globals = append(append(append(globals, t, 1), zeros[t]...), opEnd)
	}
	globals = append(leb.AppendS64(append(globals, typeI32, 1, opI32Const), genTicks), opEnd)
	sec(secGlobal, globals...)
	exported := byte(len(g.funcs))
	if start {
		exported--
	}
	sec(secExport, 7, 5, 't', 'i', 'c', 'k', 's', kindGlobal, byte(g.budget), 1, 'm', kindMemory, 0, 1, 'f', kindFunc,
		exported,
		2, 'g', '0', kindGlobal, 0, 2, 'g', '1', kindGlobal, 1, 2, 'g', '2', kindGlobal, 2, 2, 'g', '3', kindGlobal, 3)
	if start {
		sec(secStart, byte(len(g.funcs)))
	}
	last := byte(len(g.funcs))
	// an active segment with every function, a passive one, which declares them too
	elem := []byte{2, 0, opI32Const, 0, opEnd, min(last+1, 7)}
	for i := range min(last+1, 7) {
		elem = append(elem, i)
	}
	elem = append(elem, 1, 0, 4+last)
	for i := range 4 + last {
		elem = append(elem, i%(last+1))
	}
	sec(9, elem...)
	sec(secCount, 2)
	sec(secCode, bodies...)
	sec(11, 2, 0, opI32Const, 16, opEnd, 4, 1, 2, 3, 0xff, 1, 15, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0xff, 0xfe, 0xfd, 0xfc,
		0xfb)
	if g.next(4) == 1 {
		sec(secCustom, 4, 'n', 'a', 'm', 'e', 1, 4, 1, 0, 1, 'x')
	}
	return out
}
