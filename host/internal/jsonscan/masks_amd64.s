#include "textflag.h"

// func masks(b *[64]byte) (quotes, backslashes, controls uint64)
//
// SSE2 is part of every amd64 processor.
TEXT ·masks(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), SI
	MOVQ $0x2222222222222222, AX // the quote
	MOVQ AX, X8
	PUNPCKLQDQ X8, X8
	MOVQ $0x5c5c5c5c5c5c5c5c, AX // the backslash
	MOVQ AX, X9
	PUNPCKLQDQ X9, X9
	MOVQ $0x1f1f1f1f1f1f1f1f, AX // the greatest control character
	MOVQ AX, X10
	PUNPCKLQDQ X10, X10

// BLOCK sets the bits of 16 bytes at offset off: DX, BX and CX.
#define BLOCK(off) \
	MOVOU off(SI), X0 \
	MOVO X0, X1 \
	MOVO X0, X2 \
	PCMPEQB X8, X0 \
	PCMPEQB X9, X1 \
	MOVO X2, X3 \
	PMINUB X10, X2 \
	PCMPEQB X3, X2 \
	PMOVMSKB X0, DX \
	PMOVMSKB X1, BX \
	PMOVMSKB X2, CX

	BLOCK(0)
	MOVQ DX, R8
	MOVQ BX, R9
	MOVQ CX, R10
	BLOCK(16)
	SHLQ $16, DX
	SHLQ $16, BX
	SHLQ $16, CX
	ORQ DX, R8
	ORQ BX, R9
	ORQ CX, R10
	BLOCK(32)
	SHLQ $32, DX
	SHLQ $32, BX
	SHLQ $32, CX
	ORQ DX, R8
	ORQ BX, R9
	ORQ CX, R10
	BLOCK(48)
	SHLQ $48, DX
	SHLQ $48, BX
	SHLQ $48, CX
	ORQ DX, R8
	ORQ BX, R9
	ORQ CX, R10
	MOVQ R8, quotes+8(FP)
	MOVQ R9, backslashes+16(FP)
	MOVQ R10, controls+24(FP)
	RET

// func plain(b *byte, n int) int
TEXT ·plain(SB), NOSPLIT, $0-24
	MOVQ b+0(FP), SI
	MOVQ n+8(FP), DI
	MOVQ $0x2222222222222222, AX
	MOVQ AX, X8
	PUNPCKLQDQ X8, X8
	MOVQ $0x5c5c5c5c5c5c5c5c, AX
	MOVQ AX, X9
	PUNPCKLQDQ X9, X9
	MOVQ $0x1f1f1f1f1f1f1f1f, AX
	MOVQ AX, X10
	PUNPCKLQDQ X10, X10
	XORQ AX, AX

// FIND adds to X4 what of the 16 bytes in X0 is not plain.
#define FIND(off) \
	MOVOU off(SI)(AX*1), X0 \
	MOVO X0, X1 \
	MOVO X0, X2 \
	PCMPEQB X8, X1 \
	PCMPEQB X9, X2 \
	MOVO X0, X3 \
	PMINUB X10, X3 \
	PCMPEQB X0, X3 \
	POR X1, X2 \
	POR X2, X3 \
	POR X3, X4

next:
	LEAQ 64(AX), BX
	CMPQ BX, DI
	JGT done
	PXOR X4, X4
	FIND(0)
	FIND(16)
	FIND(32)
	FIND(48)
	PMOVMSKB X4, CX
	TESTL CX, CX
	JNZ done
	MOVQ BX, AX
	JMP next

done:
	MOVQ AX, ret+16(FP)
	RET
