package jwt

import (
	"bytes"
	"crypto"
	"encoding/json"
	"os"

	"github.com/go-jose/go-jose/v4"
)

// Withdraw makes v stop accepting keys that the issuers' key files no longer contain,
// and issuers for which keep is false, without waiting for a verifier that is built
// from all of the files. It adds nothing: a new key in a file is accepted once the
// whole file is valid. It returns what was withdrawn, as text for a log. Verifiers that
// share issuers with v lose the same keys.
//
// A file that cannot be read or is not JSON withdraws nothing. An empty file, which
// may be one that is being written, withdraws all keys only if empties is set.
func (v *Verifier) Withdraw(keep func(issuer string) bool, empties bool) (out []string) {
	for _, i := range v.order {
		if i.ended.Load() {
			continue
		}
		if !keep(i.cfg.Issuer) {
			i.ended.Store(true)
			out = append(out, "issuer "+i.cfg.Issuer)
			continue
		}
		if i.cfg.JWKSFile == "" {
			continue
		}
		b, err := os.ReadFile(i.cfg.JWKSFile)
		if err != nil {
			continue
		}
		for _, kid := range i.shrink(b, empties) {
			out = append(out, "key "+kid+" of issuer "+i.cfg.Issuer)
		}
	}
	return out
}

// shrink removes the keys that are not in the JWK set b and returns their ids.
func (i *issuer) shrink(b []byte, empties bool) (gone []string) {
	prints, ok := thumbprints(b, i.algs)
	old := i.keys.Load()
	if !ok || old == nil || !empties && len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	next := &keySet{}
	for _, k := range old.keys {
		if p, err := k.Thumbprint(crypto.SHA256); err == nil && prints[string(p)] {
			next.keys = append(next.keys, k)
		} else {
			gone = append(gone, k.KeyID)
		}
	}
	if len(gone) > 0 {
		i.keys.Store(next) // without the sum of a file, so the next verifier reads the file again
	}
	return gone
}

// thumbprints returns the thumbprints of the usable keys in a JWK set, leaving out
// keys that cannot be decoded; false if b is not a JWK set.
func thumbprints(b []byte, algs []jose.SignatureAlgorithm) (map[string]bool, bool) {
	out := map[string]bool{}
	if len(bytes.TrimSpace(b)) == 0 {
		return out, true
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(b) > maxJWKS || json.Unmarshal(b, &raw) != nil || raw.Keys == nil {
		return nil, false
	}
	for _, text := range raw.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) != nil || !usable(&k, algs) {
			continue
		}
		if p, err := k.Thumbprint(crypto.SHA256); err == nil {
			out[string(p)] = true
		}
	}
	return out, true
}
