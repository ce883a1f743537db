package identity

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config is the configuration of a Store.
type Config struct {
	Pepper []byte // at least 32 bytes; needed if there are keys

	// FailuresPerMinute is the number of unknown keys that one address may present before
	// further ones are answered with ErrTooManyFailures; 0 = 60: above the retries of a
	// client with a stale key, and few enough to log each.
	FailuresPerMinute int
}

func (c *Config) withDefaults() {
	if c.FailuresPerMinute == 0 {
		c.FailuresPerMinute = 60
	}
}

// Validate reports all errors of c.
func (c *Config) Validate() error {
	var all []error
	if len(c.Pepper) != 0 && len(c.Pepper) < minPepper {
		all = append(all, errPepper)
	}
	if c.FailuresPerMinute < 0 {
		all = append(all, fmt.Errorf("identity: failures per minute %d", c.FailuresPerMinute))
	}
	return errors.Join(all...)
}

// Store is the state that all sets of credentials share: counts, failures by address,
// and the last use of each key. Authentication is the job of a [Set]. All methods
// may be called concurrently.
type Store struct {
	hasher   *hasher // nil without a pepper
	failures failures
	now      func() time.Time
	counts   counters

	mu   sync.Mutex               // guards uses
	uses map[string]*atomic.Int64 // Unix seconds of the last use, 0 = none; by key id
	used atomic.Bool              // a last use changed since SaveUses
}

type counters struct{ ok, anonymous, missing, unknown, limited atomic.Uint64 }

// Stats counts results of authentication since the start.
type Stats struct{ Accepted, Anonymous, Missing, Unknown, Limited uint64 }

// NewStore returns an empty Store.
func NewStore(cfg Config) (*Store, error) {
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{now: time.Now, uses: map[string]*atomic.Int64{}}
	s.failures.init(cfg.FailuresPerMinute)
	if len(cfg.Pepper) > 0 {
		h, err := newHasher(cfg.Pepper)
		if err != nil {
			return nil, err
		}
		s.hasher = h
	}
	return s, nil
}

// lastUse returns the counter of a key id, which every set that has the key
// shares.
func (s *Store) lastUse(id string) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[id]
	if u == nil {
		u = new(atomic.Int64)
		s.uses[id] = u
	}
	return u
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	return Stats{Accepted: s.counts.ok.Load(), Anonymous: s.counts.anonymous.Load(), Missing: s.counts.missing.Load(),
		Unknown: s.counts.unknown.Load(), Limited: s.counts.limited.Load()}
}
