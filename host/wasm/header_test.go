package wasm

import (
	"math"

	"github.com/kvasir-router/kvasir/abi"
)

// headerFields are the fields of TestHeader's batch, and the gap behind them.
var headerFields = []struct {
	off, size int
	want      uint64
}{
	{abi.BatchSize, 4, abi.BatchHeaderSize}, {abi.BatchN, 4, 3}, {abi.BatchStride, 4, 16}, {abi.BatchFlags, 4, 6},
	{abi.BatchPromptTokens, 4, 7}, {abi.BatchReserved, 4, 0}, {abi.BatchMaxTokens, 4, 9},
	{abi.BatchPriority, 4, uint64(math.Float32bits(1.5))},
	{abi.BatchNowMs, 8, math.Float64bits(2.5)}, {abi.BatchSessionHash, 8, 1 << 40}, {abi.BatchNCols, 4, 5},
	{abi.BatchColsOff, 4, 128},
	{abi.BatchOutOff, 4, 448}, {abi.BatchReqOff, 4, 384}, {abi.BatchSeed, 8, 1 << 41}, {abi.BatchNReq, 4, 8},
	{abi.BatchTermsOff, 4, 512},
	{abi.BatchSlot, 4, 1}, {abi.BatchNSlots, 4, 2}, {abi.BatchK, 4, 4}, {abi.BatchOutSize, 4, 64},
	{96, 8, 0}, {104, 8, 0}, {112, 8, 0}, {120, 8, 0},
}
