package kvindex

import "math/bits"

const (
	goodPiece = 32 // a free stretch of this many granules ends the search
	fairPiece = 4  // after patience words of the bitmap, one of this many does
	patience  = 256
)

// search finds a free stretch of granules for the arena: next fit from the
// cursor. need is how many are wanted. With all false it gives up soon when
// little is free (a new segment is better), with all true it takes what it can
// get. With whole, only a stretch of all that is needed will do, unless all.
func (a *arena) search(need uint32, all, whole bool) (pos, n uint32) {
	if a.live == 0 || a.freeG == 0 {
		return 0, 0
	}
	f := finder{need: need, goal: min(need, goodPiece), fair: min(need, fairPiece)}
	if whole {
		f.goal, f.fair = need, need
	}
	segs := a.n
	if !all && a.freeG < a.granules()/32 {
		segs = 1
	}
	g := a.cur
	if g >= a.n*segGran {
		g = 0
	}
	for k := uint32(0); k <= segs; k++ { // the first segment twice: from the cursor, then from its start
		si := g / segGran
		if s := a.segs[si].Load(); s.free > 0 && f.scan(s, si*segGran, g%segGran) {
			break
		}
		if f.n >= f.goal || f.words > patience && (all && f.n > 0 || f.n >= f.fair) {
			break
		}
		if !all && f.words > 4*patience {
			return 0, 0
		}
		g = (si + 1) % a.n * segGran
	}
	if f.n >= f.fair || all {
		return f.at * granule, f.n
	}
	return 0, 0
}

// finder keeps the longest free stretch seen so far.
type finder struct {
	need, goal, fair uint32 // granules: wanted, good enough, better than nothing
	at, n            uint32 // the longest stretch
	words            int    // of bitmaps looked at
}

// scan looks through segment s, whose first granule is base, from granule
// `from` on. It returns true when it found enough.
func (f *finder) scan(s *segment, base, from uint32) bool {
	var start, length uint32 // the stretch that reaches to where we are
	for w := from / 64; w < segGran/64; w++ {
		f.words++
		free := ^s.used[w]
		if w == from/64 {
			free &= ^uint64(0) << (from % 64)
		}
		if free == 0 {
			length = 0
			continue
		}
		for b := uint32(0); b < 64; {
			if free>>b&1 == 0 {
				length = 0
				b += uint32(bits.TrailingZeros64(free >> b))
				continue // beyond 64 if no more is free
			}
			l := min(uint32(bits.TrailingZeros64(^(free >> b))), 64-b)
			if length == 0 {
				start = w*64 + b
			}
			length += l
			b += l
			if length > f.n {
				f.at, f.n = base+start, length
				if f.n >= f.need {
					return true
				}
			}
			if b < 64 { // the stretch ended
				if f.n >= f.goal {
					return true
				}
				length = 0
			}
		}
	}
	return false
}
