package wasm

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/internal/leb"
)

// Names of the globals the rewriter exports.
const (
	fuelGlobal  = reservedPrefix + "fuel"  // units left; below zero = the guest ran out
	sliceGlobal = reservedPrefix + "slice" // units left of the running slice, sliced form only
)

// sliceUnits is the fuel that a sliced guest may use between two returns to Go. At
// 100,000 units (about 0.1 ms of C) a collection of garbage waits that long
// for a guest, and the returns cost 4 to 15 percent; less costs more.
const sliceUnits = 100_000

// yieldBytes of code are rewritten between two offers to let others run: 0.5 ms.
// A module of Go's standard toolchain takes 50 ms.
const yieldBytes = 32 << 10

// rewriteOptions control how a module is metered and limited.
type rewriteOptions struct {
	sliced  bool
	initial int64  // fuel when an instance is made, spent by a start section
	pages   uint32 // most pages of memory
}

// rewriter puts charges into a module: one at the entry of every function and
// one at the head of every loop, for the instructions of that region, so that
// a charge is always paid before the work. A guest can repeat itself only by
// a branch to a loop head or by a call, so that no work escapes. Nothing is
// renumbered: globals, a type, a function and two locals per function are
// appended.
type rewriter struct {
	m      *module
	opt    rewriteOptions
	fuel   uint32 // global charged by the code
	refuel uint32 // function called when it is below zero, sliced form only
}

// rewriteFuel returns the metered module.
func rewriteFuel(m *module, opt rewriteOptions) ([]byte, error) {
	w := &rewriter{m: m, opt: opt, fuel: m.globals, refuel: uint32(len(m.imports) + len(m.funcs))}
	out := append([]byte(nil), "\x00asm\x01\x00\x00\x00"...)
	globals, exports := false, false
	emit := func(id byte, body []byte) {
		out = append(leb.AppendU32(append(out, id), uint32(len(body))), body...)
	}
	missing := func(rank int) {
		if !globals && rank > sectionRank(secGlobal) {
			emit(secGlobal, w.globals(nil))
			globals = true
		}
		if !exports && rank > sectionRank(secExport) {
			emit(secExport, w.exports(nil))
			exports = true
		}
	}
	for _, s := range m.sections {
		if s.id != secCustom {
			missing(sectionRank(s.id))
		}
		body, err := w.section(s)
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", s.id, err)
		}
		globals = globals || s.id == secGlobal
		exports = exports || s.id == secExport
		if body != nil {
			emit(s.id, body)
		}
	}
	missing(1 << 16)
	return out, nil
}

// section returns the body of s as rewritten, nil to leave it out.
func (w *rewriter) section(s section) ([]byte, error) {
	switch s.id {
	case secCustom:
		if r := (&reader{leb.Reader{Bytes: s.body}}); r.Name() != "name" {
			return nil, nil // debug information: its offsets no longer hold
		}
	case secType:
		if w.opt.sliced {
			return bump(s.body, 1, []byte{0x60, 0, 0})
		}
	case secFunc:
		if w.opt.sliced {
			return bump(s.body, 1, leb.AppendU32(nil, uint32(len(w.m.types))))
		}
	case secTable:
		return limitTables(s.body)
	case secMemory:
		return limitMemory(s.body, w.opt.pages)
	case secGlobal:
		return w.globals(s.body), nil
	case secExport:
		return w.exports(s.body), nil
	case secCode:
		return w.code(s.body)
	}
	return s.body, nil
}

// bump appends k elements to the vector in body.
func bump(body []byte, k uint32, extra []byte) ([]byte, error) {
	r := &reader{leb.Reader{Bytes: body}}
	n := r.U32()
	if r.Err != nil {
		return nil, r.Err
	}
	return append(append(leb.AppendU32(nil, n+k), body[r.At:]...), extra...), nil
}

func (w *rewriter) globals(body []byte) []byte {
	if body == nil {
		body = []byte{0}
	}
	k, extra := uint32(1), []byte(nil)
	if w.opt.sliced {
		k, extra = 2, mutI64(nil, 0)
	}
	out, _ := bump(body, k, mutI64(extra, w.opt.initial))
	return out
}

func mutI64(b []byte, v int64) []byte {
	return append(leb.AppendS64(append(b, typeI64, 1, opI64Const), v), opEnd)
}

func (w *rewriter) exports(body []byte) []byte {
	if body == nil {
		body = []byte{0}
	}
	k, extra := uint32(1), []byte(nil)
	fuel := w.fuel
	if w.opt.sliced {
		k, extra = 2, exportGlobal(nil, sliceGlobal, w.fuel)
		fuel++
	}
	out, _ := bump(body, k, exportGlobal(extra, fuelGlobal, fuel))
	return out
}

func exportGlobal(b []byte, name string, index uint32) []byte {
	b = append(append(b, byte(len(name))), name...)
	return leb.AppendU32(append(b, kindGlobal), index)
}

// limitMemory lowers the memory's maximum to pages.
func limitMemory(body []byte, pages uint32) ([]byte, error) {
	r := &reader{leb.Reader{Bytes: body}}
	r.U32()
	flag, lo, hi := r.Byte(), r.U32(), pages
	if flag > 1 {
		return nil, errors.New("shared or 64-bit memory is not in the feature set")
	}
	if flag == 1 {
		hi = min(hi, r.U32())
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if r.At != len(body) {
		return nil, errors.New("trailing bytes")
	}
	if lo > hi {
		return nil, fmt.Errorf("memory begins with %d pages, at most %d", lo, hi)
	}
	return leb.AppendU32(leb.AppendU32([]byte{1, 1}, lo), hi), nil
}

// limitTables lowers every table's maximum to maxTable.
func limitTables(body []byte) ([]byte, error) {
	r := &reader{leb.Reader{Bytes: body}}
	n := r.Count()
	out := leb.AppendU32(nil, n)
	for ; n > 0 && r.Err == nil; n-- {
		typ, flag, lo, hi := r.Byte(), r.Byte(), r.U32(), uint32(maxTable)
		if flag > 1 || typ != 0x70 && typ != 0x6f {
			return nil, errors.New("table form is not in the feature set")
		}
		if flag == 1 {
			hi = min(hi, r.U32())
		}
		if lo > hi {
			return nil, fmt.Errorf("table begins with %d elements, at most %d", lo, hi)
		}
		out = leb.AppendU32(leb.AppendU32(append(out, typ, 1), lo), hi)
	}
	if r.Err == nil && r.At != len(body) {
		r.Fail(errors.New("trailing bytes"))
	}
	return out, r.Err
}

func (w *rewriter) code(body []byte) ([]byte, error) {
	r := &reader{leb.Reader{Bytes: body}}
	n := r.Count()
	if r.Err == nil && int(n) != len(w.m.funcs) {
		return nil, fmt.Errorf("%d bodies for %d functions", n, len(w.m.funcs))
	}
	k := n
	if w.opt.sliced {
		k++
	}
	out := leb.AppendU32(make([]byte, 0, len(body)+len(body)/4), k)
	for i := uint32(0); i < n && r.Err == nil; i++ {
		fn := r.Take(r.U32())
		if r.Err != nil {
			break
		}
		f, err := w.function(fn, uint64(len(w.m.types[w.m.funcs[i]].params)))
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", uint32(len(w.m.imports))+i, err)
		}
		if len(out)/yieldBytes != (len(out)+len(f))/yieldBytes {
			runtime.Gosched()
		}
		out = append(leb.AppendU32(out, uint32(len(f))), f...)
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if r.At != len(body) {
		return nil, errors.New("trailing bytes")
	}
	if w.opt.sliced {
		f := w.refuelBody()
		out = append(leb.AppendU32(out, uint32(len(f))), f...)
	}
	return out, nil
}

// trap ends the "below zero?" test on the stack.
func (w *rewriter) trap(o []byte) []byte {
	o = append(o, opI64Const, 0, opI64LtS, opIf, blockVoid)
	if w.opt.sliced {
		return append(leb.AppendU32(append(o, opCall), w.refuel), opEnd)
	}
	return append(o, opUnreachable, opEnd)
}

// charge appends fuel -= units, and the trap; t is an i64 local.
func (w *rewriter) charge(o []byte, t uint32, units int64) []byte {
	o = leb.AppendU32(append(o, opGlobalGet), w.fuel)
	o = leb.AppendS64(append(o, opI64Const), units)
	o = leb.AppendU32(append(o, opI64Sub, opLocalTee), t)
	o = leb.AppendU32(append(o, opGlobalSet), w.fuel)
	return w.trap(leb.AppendU32(append(o, opLocalGet), t))
}

// chargeLength appends a charge for the i32 on top of the stack, which stays
// there, shifted by shift bits (left if positive); t is an i64 local, t+1 i32.
func (w *rewriter) chargeLength(o []byte, t uint32, shift int64) []byte {
	o = leb.AppendU32(append(o, opLocalTee), t+1)
	o = leb.AppendU32(append(o, opGlobalGet), w.fuel)
	o = append(leb.AppendU32(append(o, opLocalGet), t+1), opI64Extend)
	if shift >= 0 {
		o = append(leb.AppendS64(append(o, opI64Const), shift), opI64Shl)
	} else {
		o = append(leb.AppendS64(append(o, opI64Const), -shift), opI64ShrU)
	}
	o = leb.AppendU32(append(o, opI64Sub, opLocalTee), t)
	o = leb.AppendU32(append(o, opGlobalSet), w.fuel)
	return w.trap(leb.AppendU32(append(o, opLocalGet), t))
}

// refuelBody is the function a sliced guest calls when its slice is used up:
// memory.grow 0 leaves to Go, where the world may be stopped; then as many slices
// are taken from the fuel as make the running one not negative, at once, because
// one memory.grow may be charged for millions of them.
func (w *rewriter) refuelBody() []byte {
	slice, fuel, taken := w.fuel, w.fuel+1, byte(0)
	o := []byte{1, 1, typeI64, opI32Const, 0, opMemoryGrow, 0, opDrop}
	o = leb.AppendS64(append(o, opI64Const), sliceUnits-1)
	o = append(leb.AppendU32(append(o, opGlobalGet), slice), opI64Sub)
	o = append(leb.AppendS64(append(o, opI64Const), sliceUnits), opI64DivU)
	o = append(leb.AppendS64(append(o, opI64Const), sliceUnits), opI64Mul, opLocalSet, taken)
	o = leb.AppendU32(append(o, opGlobalGet), fuel)
	o = append(o, opLocalGet, taken, opI64Sub)
	o = leb.AppendU32(append(o, opGlobalSet), fuel)
	o = leb.AppendU32(append(o, opGlobalGet), fuel)
	o = append(o, opI64Const, 0, opI64LtS, opIf, blockVoid, opUnreachable, opEnd)
	o = leb.AppendU32(append(o, opGlobalGet), slice)
	o = append(o, opLocalGet, taken, opI64Add)
	return append(leb.AppendU32(append(o, opGlobalSet), slice), opEnd)
}

// function returns a function's body with its charges.
func (w *rewriter) function(body []byte, params uint64) ([]byte, error) {
	r := &reader{leb.Reader{Bytes: body}}
	groups := r.Count()
	locals, from := params, r.At
	for k := uint32(0); k < groups && r.Err == nil; k++ {
		locals += uint64(r.U32())
		if t := r.Byte(); !strings.ContainsRune("\x7f\x7e\x7d\x7c\x7b\x70\x6f", rune(t)) {
			return nil, fmt.Errorf("local of type %#x is not in the feature set", t)
		}
		if locals > maxLocals {
			return nil, fmt.Errorf("more than %d locals", maxLocals)
		}
	}
	decls, start := body[from:r.At], r.At
	costs, size, err := regionCosts(body, start)
	if err != nil {
		return nil, err
	}
	// A frame's size grows with locals and code: charge it, so that fuel bounds
	// the depth of the stack too.
	entry := costs[0] + abi.FuelCall + int64(locals)/4 + size/64
	t := uint32(locals)
	out := make([]byte, 0, len(body)+len(body)/4+48)
	out = append(append(leb.AppendU32(out, groups+2), decls...), 1, typeI64, 1, typeI32)
	out = w.charge(out, t, entry)
	region := 0
	r = &reader{leb.Reader{Bytes: body, At: start}}
	for r.More() {
		at := r.At
		op, sub := r.instruction()
		if shift, charged := lengthShift(op, sub); charged {
			out = w.chargeLength(out, t, shift)
		}
		out = append(out, body[at:r.At]...)
		if op == opLoop {
			region++
			out = w.charge(out, t, costs[region])
		}
	}
	return out, r.Err
}

// lengthShift reports whether an instruction is charged by the length on top of the
// stack, and the power of two of units per element.
func lengthShift(op byte, sub uint32) (shift int64, charged bool) {
	switch {
	case op == opMemoryGrow:
		return 14, true // abi.FuelPage
	case op != prefixMisc:
		return 0, false
	}
	switch sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		return -4, true // abi.FuelBulkBytes
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		return 0, true
	}
	return 0, false
}

// regionCosts counts the instructions of the function (0) and of each loop
// (1…, in order of their heads), without those of loops inside; size is all.
func regionCosts(body []byte, start int) (costs []int64, size int64, err error) {
	r := &reader{leb.Reader{Bytes: body, At: start}}
	costs = []int64{0}
	stack := []int{0} // region of each open block
	for len(stack) > 0 && r.Err == nil {
		op, _ := r.instruction()
		reg := stack[len(stack)-1]
		switch op {
		case opLoop:
			costs = append(costs, 0)
			reg = len(costs) - 1
			stack = append(stack, reg)
		case opBlock, opIf:
			stack = append(stack, reg)
		case opEnd:
			stack = stack[:len(stack)-1]
		}
		costs[reg]++
		size++
	}
	if r.Err == nil && r.At != len(body) {
		r.Fail(errors.New("code after the end"))
	}
	return costs, size, r.Err
}
