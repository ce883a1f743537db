package jwt

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// cacheSlots is how many tokens are remembered: of 8,192 users at work at once
// each has one. Tokens are 1 KB as a rule and 8 KiB at most.
const cacheSlots = 8192

// hashed is how much of a token's end tells its slot: a part of the signature,
// which is as good as random. The rest is compared.
const hashed = 32

// cache remembers verified tokens in a table of fixed size; of two tokens with
// one slot the later stays. Only tokens that were verified enter, so that
// nobody else can push them out. It takes no lock.
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
	keys      *keySet // that it was verified with
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed()} }

// get returns the entry of a token that is still in force: it has not ended, and
// its issuer's keys are those it was verified with and not too old. The whole
// token is compared, not only its hash.
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
