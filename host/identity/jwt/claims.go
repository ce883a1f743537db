package jwt

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// maxDepth bounds the nesting of claims.
const maxDepth = 16

var errClaims = errors.New("jwt: not an object of claims")

// object decodes claims strictly. Parsers differ in which of two members with the
// same name they use, so duplicates are refused at every depth.
func object(b []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, errClaims
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errClaims
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errClaims
	}
	return m, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errClaims
	}
	switch t {
	case json.Delim('{'):
		m := map[string]any{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, ok := k.(string)
			if _, twice := m[name]; twice || !ok {
				return nil, errClaims
			}
			if m[name], err = value(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return m, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

// claim finds a claim by name or JSON pointer.
func claim(m map[string]any, name string) any {
	if !strings.HasPrefix(name, "/") {
		return m[name]
	}
	var v any = m
	for _, part := range strings.Split(name[1:], "/") {
		o, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return v
}

// word returns a claim that is one string, "" if it is absent.
func word(m map[string]any, name string) (s string, ok bool) {
	v := claim(m, name)
	if v == nil {
		return "", true
	}
	s, ok = v.(string)
	return s, ok
}

// words returns a claim that is a list of strings or, with split, a string of words.
func words(m map[string]any, name string, split bool) (out []string, ok bool) {
	switch v := claim(m, name).(type) {
	case nil:
		return nil, true
	case string:
		if split {
			return strings.Fields(v), true
		}
		return []string{v}, v != ""
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

// seconds returns a claim that is a time; there is false if it is absent.
func seconds(m map[string]any, name string) (t time.Time, there, ok bool) {
	n, isNumber := m[name].(json.Number)
	if m[name] == nil {
		return t, false, true
	}
	f, err := n.Float64()
	if !isNumber || err != nil || math.IsNaN(f) || f < 0 || f > 1e11 { // the year 5138
		return t, true, false
	}
	return time.Unix(int64(f), 0), true, true
}

// validNow checks issuer, audience and times. until is when the token expires.
func (i *issuer) validNow(m map[string]any, now time.Time) (until time.Time, reason string) {
	if iss, ok := word(m, "iss"); !ok || iss != i.cfg.Issuer {
		return until, ReasonIssuer
	}
	if aud, ok := words(m, "aud", false); !ok || !slices.Contains(aud, i.cfg.Audience) {
		return until, ReasonAudience
	}
	exp, there, ok := seconds(m, "exp")
	if !there || !ok {
		return until, ReasonClaims // a token without exp would be valid forever
	}
	if until = exp.Add(i.cfg.Leeway); !now.Before(until) {
		return until, ReasonExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		from, there, ok := seconds(m, name)
		if !ok {
			return until, ReasonClaims
		}
		if there && now.Add(i.cfg.Leeway).Before(from) {
			return until, ReasonNotYet
		}
	}
	return until, ""
}

// principal returns the principal of verified claims.
func (i *issuer) principal(m map[string]any) (*identity.Principal, string) {
	c := &i.cfg
	g := identity.Grant{Tenant: c.Tenant, Labels: map[string]string{}}
	ok := []bool{true, true, true, true}
	if c.TenantClaim != "" {
		g.Tenant, ok[0] = word(m, c.TenantClaim)
	}
	g.User, ok[1] = word(m, c.UserClaim)
	g.Groups, ok[2] = words(m, c.GroupsClaim, false)
	g.Scopes, ok[3] = words(m, c.ScopesClaim, true)
	for _, label := range slices.Sorted(maps.Keys(c.LabelClaims)) {
		v, good := word(m, c.LabelClaims[label])
		if ok = append(ok, good); v != "" {
			g.Labels[label] = v
		}
	}
	if slices.Contains(ok, false) {
		return nil, ReasonClaims
	}
	p, err := g.Principal(identity.MethodJWT, c.Issuer)
	if err != nil {
		return nil, ReasonClaims
	}
	if len(c.Tenants) > 0 && !slices.Contains(c.Tenants, p.Tenant) {
		return nil, ReasonTenant
	}
	return p, ""
}
