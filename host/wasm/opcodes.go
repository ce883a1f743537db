package wasm

import (
	"fmt"

	"github.com/kvasir-router/kvasir/host/internal/leb"
)

// Opcodes the rewriter acts on.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opMemoryGrow  = 0x40
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI64LtS      = 0x53
	opI64Add      = 0x7c
	opI64Sub      = 0x7d
	opI64Mul      = 0x7e
	opI64DivU     = 0x80
	opI64Shl      = 0x86
	opI64ShrU     = 0x88
	opI64Extend   = 0xad // i64.extend_i32_u
	opBrIf        = 0x0d
	prefixMisc    = 0xfc
	prefixSIMD    = 0xfd

	blockVoid = 0x40
)

// Second bytes after prefixMisc.
const (
	miscMemoryInit = 8
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableFill  = 17
)

// reader reads a part of a module, and code instruction by instruction.
type reader struct{ leb.Reader }

// instruction skips one instruction with its immediates. It fails for instructions
// outside the feature set: unknown code is not rewritten.
func (r *reader) instruction() (op byte, sub uint32) {
	op = r.Byte()
	switch {
	case op == opUnreachable, op == 0x01, op == 0x05, op == opEnd, op == 0x0f, op == opDrop, op == 0x1b, op == 0xd1:
		// no immediates
	case op == opBlock, op == opLoop, op == opIf, op == opI32Const, op == opI64Const, op == 0xd0:
		r.Skip()
	case op == 0x0c, op == opBrIf, op == opCall, op >= opLocalGet && op <= 0x26, op == 0xd2:
		r.U32()
	case op == 0x0e: // br_table
		for n := int64(r.Count()) + 1; n > 0 && r.Err == nil; n-- {
			r.U32()
		}
	case op == 0x11: // call_indirect
		r.U32()
		r.U32()
	case op == 0x1c: // select with types
		r.Take(r.Count())
	case op >= 0x28 && op <= 0x3e:
		r.memarg()
	case op == 0x3f, op == opMemoryGrow:
		r.Byte()
	case op == 0x43:
		r.Take(4)
	case op == 0x44:
		r.Take(8)
	case op >= 0x45 && op <= 0xc4:
		// numeric, no immediates
	case op == prefixMisc:
		sub = r.U32()
		r.misc(sub)
	case op == prefixSIMD:
		sub = r.U32()
		r.simd(sub)
	default:
		r.Fail(fmt.Errorf("opcode %#x is not in the feature set", op))
	}
	return op, sub
}

func (r *reader) memarg() {
	r.U32()
	r.U32()
}

func (r *reader) misc(sub uint32) {
	switch {
	case sub <= 7: // saturating truncation
	case sub == miscMemoryInit, sub == miscMemoryCopy, sub == miscTableInit, sub == miscTableCopy:
		r.U32()
		r.U32()
	case sub <= miscTableFill:
		r.U32()
	default:
		r.Fail(fmt.Errorf("opcode 0xfc %d is not in the feature set", sub))
	}
}

// simdGaps are the numbers below 256 that the SIMD proposal leaves unused.
var simdGaps = [...]uint32{154, 162, 165, 166, 175, 176, 178, 179, 180, 187, 194, 197, 198, 207, 208, 210, 211, 212,
	226, 238}

func (r *reader) simd(sub uint32) {
	for _, g := range simdGaps {
		if sub == g {
			sub = 256
		}
	}
	switch {
	case sub > 255:
		r.Fail(fmt.Errorf("opcode 0xfd %d is not in the feature set", sub))
	case sub <= 11, sub == 92, sub == 93:
		r.memarg()
	case sub == 12, sub == 13:
		r.Take(16)
	case sub >= 21 && sub <= 34:
		r.Byte()
	case sub >= 84 && sub <= 91:
		r.memarg()
		r.Byte()
	}
}
