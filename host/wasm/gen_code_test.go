package wasm

import "github.com/kvasir-router/kvasir/host/internal/leb"

// body is a function in the making.
type body struct {
	*generator
	code   []byte
	locals []byte   // types, parameters first
	result []byte   // types
	labels [][]byte // types a branch takes to each open block, outermost first
	left   int      // statements and operators, so that a body ends
}

func (b *body) emit(c ...byte) { b.code = append(b.code, c...) }

func (b *body) emitU32(op byte, v uint32) { b.code = leb.AppendU32(append(b.code, op), v) }

// local returns a local of type t; there is always one.
func (b *body) local(t byte) uint32 {
	at := b.next(len(b.locals))
	for b.locals[at] != t {
		at = (at + 1) % len(b.locals)
	}
	return uint32(at)
}

// scratch returns the last local of type t, which nothing else uses between two
// instructions.
func (b *body) scratch(t byte) uint32 {
	for at := len(b.locals) - 1; ; at-- {
		if b.locals[at] == t {
			return uint32(at)
		}
	}
}

// tick counts the run down and traps at its end, so that every generated module
// ends without being metered.
func (b *body) tick(n byte) {
	b.emitU32(opGlobalGet, b.budget)
	b.emit(opI32Const, n, 0x6b)
	b.emitU32(opGlobalSet, b.budget)
	b.emitU32(opGlobalGet, b.budget)
	b.emit(opI32Const, 0, 0x48, opIf, blockVoid, opUnreachable, opEnd)
}

// constant leaves a value of type t, of the kind that finds faults.
func (b *body) constant(t byte) {
	ints := []int64{0, 1, -1, 2, 63, 64, 127, -128, 255, 256, 65535, 65536, 1<<31 - 1, -1 << 31, 1 << 32, 1<<63 - 1,
		-1 << 63}
	switch t {
	case typeI32:
		b.code = leb.AppendS64(append(b.code, opI32Const), int64(int32(ints[b.next(len(ints))])))
	case typeI64:
		b.code = leb.AppendS64(append(b.code, opI64Const), ints[b.next(len(ints))])
	case typeF32:
		f := [][]byte{{0, 0, 0, 0}, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0x80}, {0, 0, 0x80, 0x7f}, {0, 0, 0xc0, 0x7f},
			{0, 0, 0, 0xcf}, {1, 0, 0, 0}, {0xcd, 0xcc, 0xcc, 0xbd}}
		b.emit(append([]byte{0x43}, f[b.next(len(f))]...)...)
	case typeF64:
		f := [][]byte{{0, 0}, {0xf0, 0x3f}, {0, 0x80}, {0xf0, 0x7f}, {0xf8, 0x7f}, {0xe0, 0xc3}, {0x50, 0x3f}, {0xb9, 0xbf}}
		b.emit(append([]byte{0x44, 0, 0, 0, 0, 0, 0}, f[b.next(len(f))]...)...)
	case typeV128:
		b.emit(prefixSIMD, 12)
		for range 16 {
			b.emit([]byte{0, 1, 0x7f, 0x80, 0xff, 0xc0, 0x3f, byte(b.next(256))}[b.next(8)])
		}
	case typeFuncref:
		if b.next(2) == 0 {
			b.emit(0xd0, typeFuncref)
		} else {
			b.emitU32(0xd2, b.function(b.next))
		}
	}
}

// expr leaves a value of type t; depth bounds how far it nests.
func (b *body) expr(t byte, depth int) {
	b.left--
	switch op := b.next(12); {
	case op < 2 || depth <= 0 || b.left < 0:
		b.emitU32(opLocalGet, b.local(t))
	case op == 2:
		b.constant(t)
	case op == 3 && t != typeFuncref:
		b.emitU32(opGlobalGet, b.global(t))
	case op == 4:
		b.expr(t, depth-1)
		b.emitU32(opLocalTee, b.local(t))
	case op == 5 && t != typeFuncref: // select, with the type or without
		b.expr(t, depth-1)
		b.expr(t, depth-1)
		b.expr(typeI32, depth-1)
		if b.next(2) == 0 {
			b.emit(0x1b)
		} else {
			b.emit(0x1c, 1, t)
		}
	case op == 6:
		b.block(b.typeWith(t), depth-1, func(rest []byte) { b.drop(rest[1:]) })
	case op == 7 && t == typeI32:
		b.i32(depth)
	case op == 7 && t == typeV128: // shuffle
		b.expr(t, depth-1)
		b.expr(t, depth-1)
		b.emit(prefixSIMD, 13)
		for range 16 {
			b.emit(byte(b.next(32)))
		}
	case t == typeFuncref:
		b.expr(typeI32, depth-1)
		b.emit(opI32Const, 15, 0x71, 0x25, 0) // & 15, table.get
	default:
		ops := genOps[t]
		b.operator(&ops[b.next(len(ops))], depth)
	}
}

// i32 leaves what only i32 can be asked of.
func (b *body) i32(depth int) {
	switch b.next(4) {
	case 0:
		b.emit(0x3f, 0) // memory.size
	case 1:
		b.emit(opI32Const, byte(b.next(3)), opMemoryGrow, 0)
	case 2:
		b.expr(typeFuncref, depth-1)
		b.emit(0xd1) // ref.is_null
	default:
		b.emit(prefixMisc, 16, 0) // table.size
	}
}

// operator emits op with its operands.
func (b *body) operator(op *genOp, depth int) {
	for i, t := range op.in {
		b.expr(t, depth-1)
		if op.mem && i == 0 && b.next(16) > 0 {
			b.emit(opI32Const, 0xff, 0xff, 0x03, 0x71) // & 65535
		}
	}
	b.emit(op.code...)
	if op.mem {
		b.emit(0)
		b.code = leb.AppendU32(b.code, uint32(b.next(64)))
	}
	if op.lanes > 0 {
		b.emit(byte(b.next(op.lanes)))
	}
	b.canonical(op)
}

// canonical makes every NaN of op's result the same: which one an operator gives
// is left open, and may differ between two ways to compile it.
func (b *body) canonical(op *genOp) {
	nan, equal := []byte{0, 0, 0xc0, 0x7f}, byte(0x5b)
	if op.nan == typeF64 {
		nan, equal = []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, 0x61
	}
	if op.nan == 0 {
		return
	}
	t := op.nan
	if op.code[0] == prefixSIMD {
		t = typeV128
	}
	x := b.scratch(t)
	b.emitU32(opLocalTee, x)
	switch t {
	case typeF32:
		b.emit(append([]byte{0x43}, nan...)...)
	case typeF64:
		b.emit(append([]byte{0x44}, nan...)...)
	default:
		b.emit(prefixSIMD, 12)
		for range 16 / len(nan) {
			b.emit(nan...)
		}
	}
	b.emitU32(opLocalGet, x)
	b.emitU32(opLocalGet, x)
	switch {
	case t != typeV128:
		b.emit(equal, 0x1b) // select
	case op.nan == typeF32:
		b.emit(prefixSIMD, 65, prefixSIMD, 82) // f32x4.eq, v128.bitselect
	default:
		b.emit(prefixSIMD, 71, prefixSIMD, 82)
	}
}

// values leaves one value of each type.
func (b *body) values(types []byte, depth int) {
	for _, t := range types {
		b.expr(t, depth)
	}
}

// take stores or drops the values on the stack.
func (b *body) take(types []byte) {
	for i := len(types) - 1; i >= 0; i-- {
		if b.next(4) == 0 {
			b.emit(opDrop)
		} else {
			b.emitU32(0x21, b.local(types[i]))
		}
	}
}

func (b *body) drop(types []byte) {
	for range types {
		b.emit(opDrop)
	}
}

// block emits a block, loop or if of a type with its operands; done is called with its
// results.
func (b *body) block(typ uint32, depth int, done func(results []byte)) {
	f := b.types[typ]
	kind := []byte{opBlock, opLoop, opIf}[b.next(3)]
	b.values(f.params, depth)
	if kind == opIf {
		b.expr(typeI32, depth)
	}
	b.emit(kind)
	b.code = leb.AppendS64(b.code, int64(typ))
	label := f.results
	if kind == opLoop {
		label = f.params
	}
	b.labels = append(b.labels, label)
	for range 1 + b2i(kind == opIf) {
		if kind == opLoop {
			b.tick(1)
		}
		b.take(f.params)
		b.statements(depth - 1)
		b.values(f.results, depth-1)
		if kind == opIf {
			kind = 0
			b.emit(0x05)
		}
	}
	b.labels = b.labels[:len(b.labels)-1]
	b.emit(opEnd)
	done(f.results)
}

func b2i(v bool) int {
	if v {
		return 1
	}
	return 0
}

func (b *body) statements(depth int) {
	for range b.next(5) {
		if b.left--; b.left < 0 {
			return
		}
		b.statement(depth)
	}
}

// statement leaves the stack as it is.
func (b *body) statement(depth int) {
	switch op := b.next(14); {
	case op == 0 || depth <= 0:
		t := genTypes[b.next(len(genTypes))]
		b.expr(t, 2)
		b.emitU32(0x21, b.local(t))
	case op < 4:
		b.block(uint32(b.next(len(b.types))), depth-1, b.take)
	case op == 4:
		b.operator(&genStores[b.next(len(genStores))], depth)
	case op == 5:
		t := b.mutable[b.next(len(b.mutable))]
		b.expr(t, depth-1)
		b.emitU32(opGlobalSet, b.global(t))
	case op == 6:
		b.bulk(depth)
	case op == 7:
		b.table(depth)
	case op == 8:
		f := b.function(b.next)
		typ := b.typeOf(f)
		b.values(typ.params, depth-1)
		b.emitU32(opCall, f)
		b.take(typ.results)
	case op == 9:
		n := uint32(b.next(len(b.types)))
		b.values(b.types[n].params, depth-1)
		b.expr(typeI32, depth-1)
		b.emit(opI32Const, 7, 0x71) // & 7
		b.emitU32(0x11, n)
		b.emit(0)
		b.take(b.types[n].results)
	default:
		b.branch(depth)
	}
}

// branch emits a jump and, if it is taken for sure, code that is never run.
func (b *body) branch(depth int) {
	at := b.next(len(b.labels))
	label := uint32(len(b.labels) - 1 - at)
	types := b.labels[at]
	switch b.next(12) {
	case 0:
		b.values(types, depth-1)
		b.emitU32(0x0c, label)
	case 1:
		b.values(b.result, depth-1)
		b.emit(0x0f)
	case 2:
		b.emit(opUnreachable)
	case 3, 4:
		b.values(types, depth-1)
		b.expr(typeI32, depth-1)
		var to []uint32
		for i, l := range b.labels {
			if string(l) == string(types) {
				to = append(to, uint32(len(b.labels)-1-i))
			}
		}
		n := b.next(6)
		b.emitU32(0x0e, uint32(n))
		for range n + 1 {
			b.code = leb.AppendU32(b.code, to[b.next(len(to))])
		}
	case 5:
		b.emit(0x01) // nop
		return
	default:
		b.values(types, depth-1)
		b.expr(typeI32, depth-1)
		b.emitU32(opBrIf, label)
		b.drop(types)
		return
	}
	if b.next(2) == 0 {
		b.statements(depth - 1)
	}
}

// bulk emits an operation on memory; most lie within it.
func (b *body) bulk(depth int) {
	low := func(mask ...byte) {
		b.expr(typeI32, depth-1)
		b.emit(append([]byte{opI32Const}, append(mask, 0x71)...)...)
	}
	low(0xff, 0xff, 0x01) // & 32767
	switch b.next(4) {
	case 0:
		b.expr(typeI32, depth-1)
		low(0xff, 0x1f)
		b.emit(prefixMisc, miscMemoryFill, 0)
	case 1:
		low(0xff, 0xff, 0x01)
		low(0xff, 0x1f)
		b.emit(prefixMisc, miscMemoryCopy, 0, 0)
	case 2: // within the segment, until it is dropped
		low(7)
		low(7)
		b.emit(prefixMisc, miscMemoryInit, 1, 0)
	default:
		b.emit(opDrop, prefixMisc, 9, byte(b.next(2))) // data.drop
	}
}

// table emits an operation on the table.
func (b *body) table(depth int) {
	low := func() {
		b.expr(typeI32, depth-1)
		b.emit(opI32Const, 7, 0x71)
	}
	switch b.next(6) {
	case 0:
		low()
		b.expr(typeFuncref, depth-1)
		b.emit(0x26, 0) // table.set
	case 1:
		low()
		low()
		low()
		b.emit(prefixMisc, miscTableCopy, 0, 0)
	case 2:
		low()
		b.emit(opI32Const, 1)
		b.emit(opI32Const, byte(b.next(3)))
		b.emit(prefixMisc, miscTableInit, 1, 0)
	case 3:
		b.emit(prefixMisc, 13, byte(b.next(2))) // elem.drop
	case 4:
		b.expr(typeFuncref, depth-1)
		low()
		b.emit(prefixMisc, miscTableGrow, 0)
		b.take([]byte{typeI32})
	default:
		low()
		b.expr(typeFuncref, depth-1)
		low()
		b.emit(prefixMisc, miscTableFill, 0)
	}
}
