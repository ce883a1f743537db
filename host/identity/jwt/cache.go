package jwt

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// cacheSlots is the number of cached tokens: one for each of some 8,192 concurrent
// users. A token usually has 1 KB, and 8 KiB at most.
const cacheSlots = 8192

// hashed is the number of bytes at a token's end that select its slot: a part of
// the signature, which is random. The whole token is compared.
const hashed = 32

// cache holds verified tokens in a table of fixed size; a token replaces another one
// in the same slot. Only verified tokens enter, so that strangers cannot evict them.
// It takes no lock.
type cache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[entry]
}

// entry is a verified token. It is immutable.
type entry struct {
	token     string
	principal *identity.Principal
	until     int64 // Unix seconds
	issuer    *issuer
	keys      *keySet // that verified it
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// get returns the entry of a token that is still valid: it has not expired, and its
// issuer still uses the keys that verified it.
func (c *cache) get(token []byte, now time.Time) *entry {
	e := c.slots[maphash.Bytes(c.seed, token[max(0, len(token)-hashed):])%cacheSlots].Load()
	if e == nil || e.token != string(token) || now.Unix() >= e.until || e.issuer.set(now) != e.keys {
		return nil
	}
	return e
}

func (c *cache) put(e *entry) {
	c.slots[maphash.String(c.seed, e.token[max(0, len(e.token)-hashed):])%cacheSlots].Store(e)
}
