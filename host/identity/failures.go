package identity

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// failures counts failed attempts by address and minute in a table of fixed size.
// Addresses with the same slot share its budget; IPv6 addresses count by /64.
type failures struct {
	limit uint32
	seed  maphash.Seed
	slots [4096]atomic.Uint64 // Unix minute << 32 | failures in that minute
}

func (f *failures) init(perMinute int) {
	f.limit, f.seed = uint32(perMinute), maphash.MakeSeed()
}

// exceeded counts one failure and reports whether it exceeds the limit.
func (f *failures) exceeded(a netip.Addr, now time.Time) bool {
	a = a.Unmap()
	if a.Is6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			a = p.Addr()
		}
	}
	slot := &f.slots[maphash.Comparable(f.seed, a)%uint64(len(f.slots))]
	minute := uint64(now.Unix()/60) & 0xffffffff
	for {
		old := slot.Load()
		n := uint32(old)
		if old>>32 != minute {
			n = 0
		}
		if n >= f.limit {
			return true
		}
		if slot.CompareAndSwap(old, minute<<32|uint64(n+1)) {
			return false
		}
	}
}
