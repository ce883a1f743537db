package wasm

import "github.com/kvasir-router/kvasir/abi"

// ReadScaleResult reads a result with the given fields, as a guest would leave it.
func ReadScaleResult(v *ScaleView, desired, nvictims uint32, hold, ttl uint64, reason, pool,
	victim uint32) (*ScaleSize, error) {
	l := placeScale(v)
	m := make([]byte, l.total)
	writeScale(m, v, &l)
	out := rows(m[l.out:])
	out.u32(abi.ScaleOutDesired, desired)
	out.u32(abi.ScaleOutNVictims, nvictims)
	out.u32(abi.ScaleOutReasonLen, reason)
	out.u64(abi.ScaleOutHoldMs, hold)
	out.u64(abi.ScaleOutTTLMs, ttl)
	rows(m[l.outPools:]).u32(0, pool)
	rows(m[l.outVictims:]).u32(0, victim)
	return readScale(m, v, &l, "p")
}

func (r rows) u64(at uint32, v uint64) {
	r.u32(at, uint32(v))
	r.u32(at+4, uint32(v>>32))
}

// ReadFigures reads n rows.
func ReadFigures(b []byte, n uint32) ([]Figure, error) { return readFigures(b, n, "p") }
