package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set. The largest public issuers publish some ten keys in a few
// KiB.
const (
	maxJWKS   = 1 << 20
	maxKeys   = 100
	maxKid    = 256
	minRSA    = 2048 // bits
	fetchTime = 5 * time.Second
	fetchWait = 2 * time.Second  // how long a request waits for a key that is not known yet
	minFetch  = 10 * time.Second // between two fetches that requests cause
)

// keySet is the usable keys of an issuer. It is immutable.
type keySet struct {
	sum  [sha256.Size]byte // of the text
	keys []jose.JSONWebKey
}

// errNoKeys reports that an issuer's key set is well-formed and has no key: the
// issuer withdrew all of them.
var errNoKeys = errors.New("the key set is empty")

// parseKeys reads a JWK set. It leaves out keys that cannot check a signature of one
// of the algorithms: secrets, encryption keys, unknown types. A set whose keys are
// all unusable is an error, and an empty set is errNoKeys; both are returned with
// the set, which withdraws the previous keys.
func parseKeys(b []byte, algs []jose.SignatureAlgorithm) (*keySet, error) {
	if len(b) > maxJWKS {
		return nil, fmt.Errorf("key set is larger than %d bytes", maxJWKS)
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &raw); err != nil || raw.Keys == nil {
		return nil, errors.New("not a JSON Web Key Set")
	}
	if len(raw.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys, at most %d", len(raw.Keys), maxKeys)
	}
	s := &keySet{sum: sha256.Sum256(b)}
	for _, text := range raw.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) == nil && usable(&k, algs) {
			s.keys = append(s.keys, k)
		}
	}
	if len(raw.Keys) == 0 {
		return s, errNoKeys
	}
	if len(s.keys) == 0 {
		return s, fmt.Errorf("none of %d keys can check a signature with %v", len(raw.Keys), algs)
	}
	return s, nil
}

func usable(k *jose.JSONWebKey, algs []jose.SignatureAlgorithm) bool {
	if !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" || len(k.KeyID) > maxKid {
		return false
	}
	for _, a := range algs {
		if fits(k, string(a)) {
			return true
		}
	}
	return false
}

// fits reports whether a key can check a signature of an algorithm. A key that
// names its algorithm checks no other.
func fits(k *jose.JSONWebKey, alg string) bool {
	if k.Algorithm != "" && k.Algorithm != alg {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return (alg[:2] == "RS" || alg[:2] == "PS") && key.N.BitLen() >= minRSA
	case *ecdsa.PublicKey:
		return map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}[key.Curve.Params().Name] == alg
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// find returns the keys that may have signed a token: those of its kid, which a
// token may leave out if there is one key only that fits its algorithm.
func (s *keySet) find(kid, alg string) (out []*jose.JSONWebKey) {
	for i := range s.keys {
		if k := &s.keys[i]; (kid == "" || k.KeyID == kid) && fits(k, alg) {
			out = append(out, k)
		}
	}
	if kid == "" && len(out) > 1 {
		return nil
	}
	return out[:min(len(out), 4)] // more keys of one kid would only make a check slow
}

// issuer is one issuer and its keys. It is safe for concurrent use.
type issuer struct {
	cfg    Config
	algs   []jose.SignatureAlgorithm
	client *http.Client
	now    func() time.Time

	keys    atomic.Pointer[keySet] // nil = none were fetched yet
	fetched atomic.Int64           // last successful fetch, Unix nanoseconds
	fails   atomic.Uint64          // fetches
	ended   atomic.Bool            // withdrawn: none of its tokens is accepted

	mu     sync.Mutex    // guards the fields below
	tried  time.Time     // the last fetch
	failed int           // fetches since the last successful one
	flight chan struct{} // closed when the fetch under way ends; nil = none is
}

func newIssuer(c Config, now func() time.Time) (*issuer, error) {
	i := &issuer{cfg: c, algs: c.algorithms(), now: now}
	if c.JWKSFile != "" {
		b, err := os.ReadFile(c.JWKSFile)
		if err != nil {
			return nil, err
		}
		set, err := parseKeys(b, i.algs)
		if err != nil && !errors.Is(err, errNoKeys) {
			return nil, fmt.Errorf("%s: %v", c.JWKSFile, err)
		}
		i.keys.Store(set)
		return i, nil
	}
	i.client = &http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{TLSHandshakeTimeout: fetchTime, MaxIdleConns: 1, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return i, nil
}

// set returns the keys to use, nil if there are none or they are too old.
func (i *issuer) set(now time.Time) *keySet {
	s := i.keys.Load()
	if i.ended.Load() {
		return nil
	}
	if s != nil && i.client != nil && now.UnixNano()-i.fetched.Load() > int64(i.cfg.MaxStale) {
		return nil
	}
	return s
}

// age is the time since the last successful fetch; 0 for keys in a file.
func (i *issuer) age(now time.Time) time.Duration {
	if i.client == nil {
		return 0
	}
	return time.Duration(now.UnixNano() - i.fetched.Load())
}

// due reports whether a fetch is due: Refresh after the last one, and sooner after
// failures, with exponential backoff.
func (i *issuer) due(now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	wait := i.cfg.Refresh
	if i.failed > 0 || i.keys.Load() == nil {
		wait = min(wait, time.Second<<min(i.failed, 8))
	}
	return i.client != nil && !i.ended.Load() && i.flight == nil && now.Sub(i.tried) >= wait
}

// fetch fetches the keys, or waits for a fetch that is in progress. wait bounds
// both.
func (i *issuer) fetch(ctx context.Context, wait time.Duration) error {
	i.mu.Lock()
	if ch := i.flight; ch != nil {
		i.mu.Unlock()
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ch:
			return nil
		case <-t.C:
			return context.DeadlineExceeded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ch := make(chan struct{})
	i.flight, i.tried = ch, i.now()
	i.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	set, err := i.get(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	defer close(ch)
	i.flight = nil
	if old := i.keys.Load(); set != nil && (old == nil || old.sum != set.sum) {
		i.keys.Store(set) // else the old pointer stays, which cached tokens refer to
	}
	if err != nil {
		i.failed++
		i.fails.Add(1)
		return err
	}
	i.failed = 0
	i.fetched.Store(i.now().UnixNano())
	return nil
}

func (i *issuer) get(ctx context.Context) (*keySet, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", i.cfg.JWKSURL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := i.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responded with status %d", i.cfg.JWKSURL, res.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxJWKS+1))
	if err != nil {
		return nil, err
	}
	return parseKeys(b, i.algs)
}

// refetch fetches keys because a token names an unknown one, unless a request did
// so recently. It reports whether keys were fetched.
func (i *issuer) refetch(now time.Time) bool {
	i.mu.Lock()
	may := i.client != nil && !i.ended.Load() && (i.flight != nil || now.Sub(i.tried) >= minFetch)
	i.mu.Unlock()
	return may && i.fetch(context.Background(), fetchWait) == nil
}
