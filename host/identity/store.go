package identity

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Config is the configuration of a Store.
type Config struct {
	Pepper    []byte // at least 32 bytes; needed if there are keys
	Anonymous string // tenant of requests without credentials, "" = they are refused

	// FailuresPerMinute is how many unknown keys one address may show before it
	// is told to wait; 0 = 60: above the retries of a client with a stale key,
	// far below a flood worth its log lines.
	FailuresPerMinute int
}

func (c *Config) withDefaults() {
	if c.FailuresPerMinute == 0 {
		c.FailuresPerMinute = 60
	}
}

// Validate reports all faults of c.
func (c *Config) Validate() error {
	var all []error
	if len(c.Pepper) != 0 && len(c.Pepper) < minPepper {
		all = append(all, errPepper)
	}
	if c.Anonymous != "" && !validName(c.Anonymous) {
		all = append(all, fmt.Errorf("identity: bad anonymous tenant %q", c.Anonymous))
	}
	if c.FailuresPerMinute < 0 {
		all = append(all, fmt.Errorf("identity: failures per minute %d", c.FailuresPerMinute))
	}
	return errors.Join(all...)
}

// Store authenticates requests. All methods may be called concurrently.
type Store struct {
	hasher    *hasher // nil without a pepper
	anonymous *Principal
	failures  failures
	now       func() time.Time

	keys   atomic.Pointer[keySet]
	tokens atomic.Pointer[Tokens]
	certs  atomic.Pointer[map[string]*Principal] // by SAN

	mu   sync.Mutex // serialises Replace
	uses counters
	used atomic.Bool // a last use changed since SaveUses
}

// Tokens verifies tokens that issuers made, such as JWTs.
type Tokens interface {
	// Verify returns who a token stands for and whether it counts on the admin
	// listener. The error wraps ErrUnknownKey. It may be called concurrently; token
	// is valid during the call.
	Verify(token []byte, now time.Time) (p *Principal, admin bool, err error)
}

// SetTokens puts t, which may be nil, in force at once.
func (s *Store) SetTokens(t Tokens) {
	if t == nil {
		s.tokens.Store(nil)
		return
	}
	s.tokens.Store(&t)
}

// isToken reports whether a credential has the form of a JWT: three parts, of
// which the first begins as the base64 of { does.
func isToken(b []byte) bool { return len(b) > 4 && b[0] == 'e' && bytes.Count(b, dot) == 2 }

var dot = []byte(".")

// keySet is one immutable generation of keys.
type keySet struct {
	byMAC   map[mac]*entry
	records []Record
	entries []*entry // of records
}

type entry struct {
	mac       mac
	principal *Principal
	expires   time.Time
	revoked   bool
	lastUse   *atomic.Int64 // Unix seconds; shared by the generations of one id
}

type counters struct{ ok, anonymous, missing, unknown, limited atomic.Uint64 }

// Stats counts what Authenticate answered since the start.
type Stats struct {
	Accepted, Anonymous, Missing, Unknown, Limited uint64
	Keys                                           int // usable now, expired ones included
}

// NewStore returns a Store without keys.
func NewStore(cfg Config) (*Store, error) {
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{now: time.Now}
	s.failures.init(cfg.FailuresPerMinute)
	if len(cfg.Pepper) > 0 {
		h, err := newHasher(cfg.Pepper)
		if err != nil {
			return nil, err
		}
		s.hasher = h
	}
	if cfg.Anonymous != "" {
		s.anonymous = &Principal{Tenant: cfg.Anonymous, Method: MethodAnonymous}
	}
	s.keys.Store(&keySet{})
	return s, nil
}

// Replace puts the keys of k in force at once, in place of all before. Requests
// that were authenticated go on. k is not kept.
func (s *Store) Replace(k *KeyFile) error {
	if s.hasher == nil && len(k.Keys) > 0 {
		return errors.New("identity: keys without a pepper")
	}
	if err := k.validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := map[string]*atomic.Int64{}
	set := s.keys.Load()
	for i, e := range set.entries {
		old[set.records[i].ID] = e.lastUse
	}
	next := &keySet{byMAC: make(map[mac]*entry, len(k.Keys)), records: append([]Record(nil), k.Keys...)}
	for i := range next.records {
		e := newEntry(&next.records[i], old[next.records[i].ID])
		next.entries = append(next.entries, e)
		if !e.revoked {
			next.byMAC[e.mac] = e
		}
	}
	s.keys.Store(next)
	return nil
}

func newEntry(r *Record, lastUse *atomic.Int64) *entry {
	if lastUse == nil {
		lastUse = new(atomic.Int64)
	}
	e := &entry{expires: r.Expires, revoked: !r.Revoked.IsZero(), lastUse: lastUse, principal: &Principal{
		Tenant: r.Tenant, User: r.User, Groups: append([]string(nil), r.Groups...), Scopes: append([]string(nil), r.Scopes...),
		Labels: r.labels(), Method: MethodAPIKey, Issuer: r.Issuer, KeyID: r.ID,
	}}
	hex.Decode(e.mac[:], []byte(r.MAC)) // validated
	return e
}

// Authenticate returns who c stands for on the clients' listener: the holder of
// a key or token, else who a trusted proxy says asks, else whose certificate it
// is, else the anonymous tenant if it is allowed. The error is ErrNoCredentials,
// ErrTooManyFailures or ErrDisagree, or wraps ErrUnknownKey.
//
// A valid credential is accepted whatever its address did before, so that no one
// can lock out a neighbour; keys are too long to be guessed. While there are
// neither keys nor issuers of tokens, anonymous covers requests with any
// credential, because the clients' SDKs insist on sending one. It allocates
// nothing for keys and for tokens that were seen before.
func (s *Store) Authenticate(c *Credentials) (*Principal, error) {
	key, given := c.key()
	set := s.keys.Load()
	asserted := c.Proxy != nil && len(c.Asserted.Tenant) > 0
	if s.anonymous != nil && len(set.records) == 0 && s.tokens.Load() == nil {
		given = false
	}
	switch {
	case given:
		p, err := s.verify(set, c.Remote, key, given, false)
		if err == nil && asserted && p.Tenant != string(c.Asserted.Tenant) {
			s.uses.unknown.Add(1)
			return nil, ErrDisagree
		}
		return p, err
	case asserted:
		p, err := c.Asserted.principal(c.Proxy.Name())
		if err != nil {
			s.uses.unknown.Add(1)
			return nil, ErrUnknownKey
		}
		s.uses.ok.Add(1)
		return p, nil
	case c.Proxy == nil:
		if p := s.certificate(c.Certificate); p != nil {
			s.uses.ok.Add(1)
			return p, nil
		}
	}
	if s.anonymous != nil {
		s.uses.anonymous.Add(1)
		return s.anonymous, nil
	}
	s.uses.missing.Add(1)
	return nil, ErrNoCredentials
}

// Verify is Authenticate without the anonymous tenant: for the admin listener,
// where nobody is whoever comes and tokens count of some issuers only.
func (s *Store) Verify(c *Credentials) (*Principal, error) {
	key, given := c.key()
	return s.verify(s.keys.Load(), c.Remote, key, given, true)
}

func (s *Store) verify(set *keySet, remote netip.Addr, key []byte, given, onlyAdmin bool) (*Principal, error) {
	if !given {
		s.uses.missing.Add(1)
		return nil, ErrNoCredentials
	}
	err := ErrUnknownKey
	if t := s.tokens.Load(); t != nil && isToken(key) {
		p, admin, e := (*t).Verify(key, s.now())
		if e == nil && (admin || !onlyAdmin) {
			s.uses.ok.Add(1)
			return p, nil
		}
		if e != nil {
			err = e
		}
	}
	if e := s.lookup(set, key); e != nil {
		s.uses.ok.Add(1)
		return e.principal, nil
	}
	if s.failures.exceeded(remote, s.now()) {
		s.uses.limited.Add(1)
		return nil, ErrTooManyFailures
	}
	s.uses.unknown.Add(1)
	return nil, err
}

// lookup finds the entry of a key in force. The map is searched by the keyed
// hash, which its caller cannot steer, and the hit is compared in constant time.
func (s *Store) lookup(set *keySet, key []byte) *entry {
	if s.hasher == nil || len(key) == 0 || len(key) > maxKeyLen {
		return nil
	}
	m := s.hasher.of(key)
	e := set.byMAC[m]
	if e == nil || !hmac.Equal(e.mac[:], m[:]) {
		return nil
	}
	now := s.now()
	if !e.expires.IsZero() && !now.Before(e.expires) {
		return nil
	}
	if sec := now.Unix(); e.lastUse.Load() != sec {
		e.lastUse.Store(sec)
		s.used.Store(true)
	}
	return e
}

// List returns the records in force with the time of their last use here.
func (s *Store) List() []Record {
	set := s.keys.Load()
	list := append([]Record(nil), set.records...)
	for i := range list {
		if sec := set.entries[i].lastUse.Load(); sec != 0 {
			list[i].LastUse = time.Unix(sec, 0).UTC()
		}
	}
	return list
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	return Stats{Accepted: s.uses.ok.Load(), Anonymous: s.uses.anonymous.Load(), Missing: s.uses.missing.Load(),
		Unknown: s.uses.unknown.Load(), Limited: s.uses.limited.Load(), Keys: len(s.keys.Load().byMAC)}
}
