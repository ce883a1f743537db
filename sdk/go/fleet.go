package kvasir

import "unsafe"

// Autoscale registers what sizes a group of pools, instead of the built-in loop,
// whose proposal it sees. The role is experimental: it may change in any minor
// version. ErrAbstain leaves the size to the built-in loop.
func Autoscale(plugin string, f func(*Fleet) (Size, error)) {
	register(roleAutoscale, plugin, nil, func(b *Batch) error {
		v := (*Fleet)(unsafe.Pointer(b))
		s, err := f(v)
		if err != nil {
			return err
		}
		v.answer(&s)
		return nil
	}, nil)
}

// Size is an answer. The host keeps it within the pools' bounds and steps.
type Size struct {
	Desired int     // endpoints of the group
	Pools   []int   // of single pools, by place; negative or none = by preference
	Victims []int   // endpoints that go first when the size goes down
	HoldMS  float64 // no change of size for so long
	TTLMS   float64 // it stands so long while later calls abstain
	Reason  string  // for people, at most MaxScaleReason bytes
}

// Fleet is a group of pools as the host laid it out in memory, valid during the
// call.
type Fleet struct {
	size, flags, npools, nnodes                    uint32
	nsamples, ncols, stride, poolBytes             uint32
	nowMS                                          float64
	nodeBytes, poolsOff, nodesOff, samplesOff      uint32
	outOff, outBytes, outPools, outVictims, outWhy uint32
	now, desired, wish, window, _                  uint32
	rate, lead, ahead, backlog, coldMS             float64
}

// Pool is a pool of a Fleet, as it lies in memory.
type Pool struct {
	Min, Max, Ready, Pending, Draining, Failing uint32 // endpoints
	Outstanding                                 uint32 // requests in flight
	flags                                       uint32
	Price, ColdMS                               float64
	nameOff, nameLen                            uint32
	First, Nodes                                uint32 // its endpoints in the fleet's
}

// Node is an endpoint of a Fleet, as it lies in memory.
type Node struct {
	Pool               uint32
	flags              uint32
	Drain              uint32 // 0 serves, 1 no new sessions, 2 no new requests
	Inflight, Sessions uint32
	nameOff, nameLen   uint32
	_                  uint32
	Heat               float64 // tokens read from its cache, fading
	AgeMS, OldestMS    float64
}

// The layouts are those of SPEC.md, or this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Fleet{})-ScaleHeaderSize]
	_ = [1]struct{}{}[unsafe.Offsetof(Fleet{}.outWhy)-ScaleOutReasonOff]
	_ = [1]struct{}{}[unsafe.Offsetof(Fleet{}.rate)-ScaleRate]
	_ = [1]struct{}{}[unsafe.Sizeof(Pool{})-ScalePoolHeaderSize]
	_ = [1]struct{}{}[unsafe.Offsetof(Pool{}.nameOff)-ScalePoolNameOff]
	_ = [1]struct{}{}[unsafe.Sizeof(Node{})-ScaleNodeHeaderSize]
	_ = [1]struct{}{}[unsafe.Offsetof(Node{}.Heat)-ScaleNodeHeat]
)

func (f *Fleet) at(off uint32) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(f), off) }

// NowMS returns the Unix time in milliseconds, which stands still during a call.
func (f *Fleet) NowMS() float64 { return f.nowMS }

// Shadow reports whether the answer is compared only, not applied.
func (f *Fleet) Shadow() bool { return f.flags&FlagShadow != 0 }

// Pools returns how many pools there are, the one to fill first comes first.
func (f *Fleet) Pools() int { return int(f.npools) }

// Pool returns a pool.
func (f *Fleet) Pool(i int) *Pool { return (*Pool)(f.at(f.poolsOff + uint32(i)*f.poolBytes)) }

// Nodes returns how many endpoints there are.
func (f *Fleet) Nodes() int { return int(f.nnodes) }

// Node returns an endpoint.
func (f *Fleet) Node(i int) *Node { return (*Node)(f.at(f.nodesOff + uint32(i)*f.nodeBytes)) }

// PoolName returns the name of a pool.
func (f *Fleet) PoolName(i int) string { p := f.Pool(i); return f.text(p.nameOff, p.nameLen) }

// NodeName returns the name of an endpoint: the driver's, or its URL.
func (f *Fleet) NodeName(i int) string { n := f.Node(i); return f.text(n.nameOff, n.nameLen) }

func (f *Fleet) text(off, n uint32) string {
	return string(unsafe.Slice((*byte)(f.at(off)), n))
}

// Samples returns a column of history, ScaleSampleRate and so on, oldest first.
func (f *Fleet) Samples(col int) []float32 {
	return unsafe.Slice((*float32)(f.at(f.samplesOff+4*f.stride*uint32(col))), f.nsamples)
}

// Now returns how many endpoints serve or were ordered.
func (f *Fleet) Now() int { return int(f.now) }

// Proposed returns the size of the built-in loop, within bounds and steps.
func (f *Fleet) Proposed() int { return int(f.desired) }

// Wish returns the size by work, lead and backlog alone.
func (f *Fleet) Wish() int { return int(f.wish) }

// Window returns the greatest wish within the window.
func (f *Fleet) Window() int { return int(f.window) }

// Work returns the offered work, in endpoint-seconds per second, and by how much
// it grows within a cold start.
func (f *Fleet) Work() (rate, lead float64) { return f.rate, f.lead }

// ColdMS returns the time from order to readiness that the loop reckons with.
func (f *Fleet) ColdMS() float64 { return f.coldMS }

// Spot reports whether its endpoints may be taken away at any moment.
func (p *Pool) Spot() bool { return p.flags&ScalePoolSpot != 0 }

// Blocked reports whether the last order produced no endpoint.
func (p *Pool) Blocked() bool { return p.flags&ScalePoolBlocked != 0 }

// Ready reports whether it answers.
func (n *Node) Ready() bool { return n.flags&ScaleNodeReady != 0 }

// Failing reports whether it has served and has been away for long.
func (n *Node) Failing() bool { return n.flags&ScaleNodeFailing != 0 }

// answer writes s where the host looks for it.
func (f *Fleet) answer(s *Size) {
	u32 := func(off, v uint32) { *(*uint32)(f.at(off)) = v }
	for i, n := range s.Pools {
		if n >= 0 && uint32(i) < f.npools {
			u32(f.outPools+4*uint32(i), uint32(n))
		}
	}
	victims := min(len(s.Victims), int(f.nnodes))
	for i, n := range s.Victims[:victims] {
		u32(f.outVictims+4*uint32(i), uint32(n))
	}
	why := unsafe.Slice((*byte)(f.at(f.outWhy)), MaxScaleReason)
	u32(f.outOff+ScaleOutReasonLen, uint32(copy(why, s.Reason)))
	u32(f.outOff+ScaleOutNVictims, uint32(victims))
	*(*float64)(f.at(f.outOff + ScaleOutHoldMs)) = s.HoldMS
	*(*float64)(f.at(f.outOff + ScaleOutTTLMs)) = s.TTLMS
	u32(f.outOff+ScaleOutDesired, uint32(s.Desired))
}
