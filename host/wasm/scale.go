package wasm

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
)

// ScaleView is a group of pools as kvasir_x_autoscale sees it. The memory is the
// caller's and only read during a call.
type ScaleView struct {
	NowMS    float64 // Unix milliseconds, frozen for the call
	Flags    uint32  // abi.FlagShadow, abi.FlagReplay
	Pools    []ScalePool
	Nodes    []ScaleNode                    // pool by pool
	Samples  [abi.NumScaleSamples][]float32 // columns of one length, oldest first, at most abi.MaxScaleSamples
	Proposal ScaleProposal
}

// ScalePool is one pool; ready and the rest are endpoints.
type ScalePool struct {
	Name                                       string
	Min, Max, Ready, Pending, Draining, Failed uint32
	Outstanding                                uint32 // requests
	Spot, Blocked                              bool
	Price, ColdMS                              float64
}

// ScaleNode is one endpoint.
type ScaleNode struct {
	Name               string
	Pool               uint32
	Ready, Failing     bool
	Drain              uint32 // 0 serves, 1 no new sessions, 2 no new requests
	Inflight, Sessions uint32
	Heat               float64
	AgeMS, OldestMS    float64
}

// ScaleProposal is the size that the built-in loop proposes.
type ScaleProposal struct {
	Now, Desired, Wish, Window uint32
	Rate, Lead, Ahead, Backlog float64
	ColdMS                     float64
}

// ScaleSize is the size that a plugin proposes. Sizes are at most abi.MaxScaleSize,
// victims places in ScaleView.Nodes.
type ScaleSize struct {
	Desired       uint32
	Pools         []uint32 // [len(ScaleView.Pools)]; abi.Unwritten = not given
	Victims       []uint32
	HoldMS, TTLMS float64 // at least 0, finite
	Reason        string  // printable UTF-8, at most abi.MaxScaleReason bytes
}

// Autoscale asks the plugin's pinned instance for the size of a group. It may
// take long: it belongs off the request path. Errors: as Score, and
// ErrUnsupported. Concurrent calls wait for each other.
func (p *Plugin) Autoscale(v *ScaleView) (*ScaleSize, error) {
	if n := max(len(v.Pools), len(v.Nodes)); n > abi.MaxCandidates || len(v.Samples[0]) > abi.MaxScaleSamples {
		return nil, &Fault{p.name, Autoscale.String(), ReasonTooMany,
			fmt.Sprintf("%d pools, %d endpoints, %d samples", len(v.Pools), len(v.Nodes), len(v.Samples[0]))}
	}
	var out *ScaleSize
	err := p.experiment(Autoscale, func(in *instance) (err error) {
		out, err = p.autoscale(in, v)
		return err
	})
	return out, err
}

// scaleLayout is where the parts of a ScaleView are, in bytes from its base.
type scaleLayout struct {
	pools, nodes, samples, text, out, outPools, outVictims, outReason, total uint32
	stride, nsamples                                                         uint32
}

func placeScale(v *ScaleView) scaleLayout {
	text := 0
	for i := range v.Pools {
		text += len(v.Pools[i].Name)
	}
	for i := range v.Nodes {
		text += len(v.Nodes[i].Name)
	}
	np, nn, ns := uint32(len(v.Pools)), uint32(len(v.Nodes)), uint32(len(v.Samples[0]))
	l := scaleLayout{stride: uint32(abi.Stride(int(ns))), nsamples: ns}
	l.pools = alignUp(abi.ScaleHeaderSize)
	l.nodes = l.pools + alignUp(np*abi.ScalePoolHeaderSize)
	l.samples = l.nodes + alignUp(nn*abi.ScaleNodeHeaderSize)
	l.text = l.samples + alignUp(abi.NumScaleSamples*l.stride*4)
	l.out = l.text + alignUp(uint32(text))
	l.outPools = l.out + alignUp(abi.ScaleOutHeaderSize)
	l.outVictims = l.outPools + alignUp(np*4)
	l.outReason = l.outVictims + alignUp(nn*4)
	l.total = l.outReason + abi.MaxScaleReason
	return l
}

func (p *Plugin) autoscale(in *instance, v *ScaleView) (*ScaleSize, error) {
	l := placeScale(v)
	in.setClock(v.NowMS, 0)
	if err := in.ensure(l.total, startSliced); err != nil {
		return nil, err
	}
	m := in.view(l.total)
	clear(m)
	writeScale(m, v, &l)
	if err := in.run(Autoscale, coldBudget); err != nil {
		return nil, err
	}
	return readScale(m, v, &l, p.name)
}

// rows writes fields of one row, header or result.
type rows []byte

func (r rows) u32(at, v uint32)         { binary.LittleEndian.PutUint32(r[at:], v) }
func (r rows) f64(at uint32, v float64) { binary.LittleEndian.PutUint64(r[at:], math.Float64bits(v)) }
func (r rows) getU32(at uint32) uint32  { return binary.LittleEndian.Uint32(r[at:]) }
func (r rows) getF64(at uint32) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(r[at:]))
}

func writeScale(m []byte, v *ScaleView, l *scaleLayout) {
	writeScaleHeader(rows(m), v, l)
	text := l.text
	name := func(r rows, off, length uint32, s string) {
		r.u32(off, text)
		r.u32(length, uint32(len(s)))
		text += uint32(copy(m[text:l.out], s))
	}
	first := uint32(0)
	for i := range v.Pools {
		r := rows(m[l.pools+uint32(i)*abi.ScalePoolHeaderSize:])
		n := uint32(0)
		for k := range v.Nodes {
			if v.Nodes[k].Pool == uint32(i) {
				n++
			}
		}
		writeScalePool(r, &v.Pools[i])
		name(r, abi.ScalePoolNameOff, abi.ScalePoolNameLen, v.Pools[i].Name)
		r.u32(abi.ScalePoolFirst, first)
		r.u32(abi.ScalePoolNodes, n)
		first += n
	}
	for i := range v.Nodes {
		r := rows(m[l.nodes+uint32(i)*abi.ScaleNodeHeaderSize:])
		writeScaleNode(r, &v.Nodes[i])
		name(r, abi.ScaleNodeNameOff, abi.ScaleNodeNameLen, v.Nodes[i].Name)
	}
	for k := range v.Samples {
		at := l.samples + uint32(k)*l.stride*4
		copy(words(m[at:at+l.stride*4]), bitsOf(v.Samples[k]))
	}
	rows(m[l.out:]).u32(abi.ScaleOutDesired, abi.Unwritten)
	fill(words(m[l.outPools:l.outReason]), abi.Unwritten)
}

func writeScaleHeader(h rows, v *ScaleView, l *scaleLayout) {
	for _, f := range [...]struct{ at, v uint32 }{
		{abi.ScaleSize, abi.ScaleHeaderSize}, {abi.ScaleFlags, v.Flags}, {abi.ScaleNPools, uint32(len(v.Pools))},
		{abi.ScaleNNodes, uint32(len(v.Nodes))},
		{abi.ScaleNSamples, l.nsamples}, {abi.ScaleNCols, abi.NumScaleSamples}, {abi.ScaleStride, l.stride},
		{abi.ScalePoolBytes, abi.ScalePoolHeaderSize}, {abi.ScaleNodeBytes, abi.ScaleNodeHeaderSize},
		{abi.ScalePoolsOff, l.pools}, {abi.ScaleNodesOff, l.nodes}, {abi.ScaleSamplesOff, l.samples},
		{abi.ScaleOutOff, l.out}, {abi.ScaleOutBytes, l.total - l.out}, {abi.ScaleOutPoolsOff, l.outPools},
		{abi.ScaleOutVictimsOff, l.outVictims}, {abi.ScaleOutReasonOff, l.outReason},
		{abi.ScaleNow, v.Proposal.Now}, {abi.ScaleDesired, v.Proposal.Desired}, {abi.ScaleWish, v.Proposal.Wish},
		{abi.ScaleWindow, v.Proposal.Window},
	} {
		h.u32(f.at, f.v)
	}
	h.f64(abi.ScaleNowMs, v.NowMS)
	h.f64(abi.ScaleRate, v.Proposal.Rate)
	h.f64(abi.ScaleLead, v.Proposal.Lead)
	h.f64(abi.ScaleAhead, v.Proposal.Ahead)
	h.f64(abi.ScaleBacklog, v.Proposal.Backlog)
	h.f64(abi.ScaleColdMs, v.Proposal.ColdMS)
}

func flags(a bool, fa uint32, b bool, fb uint32) (f uint32) {
	if a {
		f |= fa
	}
	if b {
		f |= fb
	}
	return f
}

func writeScalePool(r rows, p *ScalePool) {
	r.u32(abi.ScalePoolMin, p.Min)
	r.u32(abi.ScalePoolMax, p.Max)
	r.u32(abi.ScalePoolReady, p.Ready)
	r.u32(abi.ScalePoolPending, p.Pending)
	r.u32(abi.ScalePoolDraining, p.Draining)
	r.u32(abi.ScalePoolFailing, p.Failed)
	r.u32(abi.ScalePoolOutstanding, p.Outstanding)
	r.u32(abi.ScalePoolFlags, flags(p.Spot, abi.ScalePoolSpot, p.Blocked, abi.ScalePoolBlocked))
	r.f64(abi.ScalePoolPrice, p.Price)
	r.f64(abi.ScalePoolColdMs, p.ColdMS)
}

func writeScaleNode(r rows, n *ScaleNode) {
	r.u32(abi.ScaleNodePool, n.Pool)
	r.u32(abi.ScaleNodeFlags, flags(n.Ready, abi.ScaleNodeReady, n.Failing, abi.ScaleNodeFailing))
	r.u32(abi.ScaleNodeDrain, n.Drain)
	r.u32(abi.ScaleNodeInflight, n.Inflight)
	r.u32(abi.ScaleNodeSessions, n.Sessions)
	r.f64(abi.ScaleNodeHeat, n.Heat)
	r.f64(abi.ScaleNodeAgeMs, n.AgeMS)
	r.f64(abi.ScaleNodeOldestMs, n.OldestMS)
}

// readScale checks a result; nothing in guest memory is trusted.
func readScale(m []byte, v *ScaleView, l *scaleLayout, plugin string) (*ScaleSize, error) {
	fault := func(r Reason, format string, args ...any) (*ScaleSize, error) {
		return nil, &Fault{Plugin: plugin, Reason: r, Detail: fmt.Sprintf(format, args...)}
	}
	out := rows(m[l.out:l.outPools])
	s := &ScaleSize{Desired: out.getU32(abi.ScaleOutDesired), HoldMS: out.getF64(abi.ScaleOutHoldMs),
		TTLMS: out.getF64(abi.ScaleOutTTLMs)}
	switch {
	case s.Desired == abi.Unwritten:
		return fault(ReasonUnwritten, "the size was not written")
	case s.Desired > abi.MaxScaleSize:
		return fault(ReasonIndex, "a size of %d, at most %d", s.Desired, abi.MaxScaleSize)
	case !(s.HoldMS >= 0 && s.TTLMS >= 0) || math.IsInf(s.HoldMS, 0) || math.IsInf(s.TTLMS, 0):
		return fault(ReasonNotFinite, "hold %v ms, ttl %v ms", s.HoldMS, s.TTLMS)
	}
	for i, n := range words(m[l.outPools:l.outVictims])[:len(v.Pools)] {
		if n > abi.MaxScaleSize && n != abi.Unwritten {
			return fault(ReasonIndex, "a size of %d for pool %d, at most %d", n, i, abi.MaxScaleSize)
		}
		s.Pools = append(s.Pools, n)
	}
	nv, nr := out.getU32(abi.ScaleOutNVictims), out.getU32(abi.ScaleOutReasonLen)
	if int64(nv) > int64(len(v.Nodes)) || nr > abi.MaxScaleReason {
		return fault(ReasonIndex, "%d victims of %d endpoints, a reason of %d bytes, at most %d", nv, len(v.Nodes), nr,
			abi.MaxScaleReason)
	}
	for i, n := range words(m[l.outVictims:l.outReason])[:nv] {
		if int64(n) >= int64(len(v.Nodes)) {
			return fault(ReasonIndex, "victim %d is endpoint %d of %d", i, n, len(v.Nodes))
		}
		s.Victims = append(s.Victims, n)
	}
	s.Reason = printable(string(m[l.outReason : l.outReason+nr]))
	return s, nil
}

// printable replaces what may harm a terminal or a log in text of a guest.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == '\uFFFD' {
			return '?'
		}
		return c
	}, s)
}
