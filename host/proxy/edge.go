package proxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kvasir-router/kvasir/host/identity"
)

// EdgeConfig has the rules of one revision for requests before they are placed. A zero field means its default.
type EdgeConfig struct {
	// Hints names the headers with which clients may steer.
	Hints Hints
	// Proxies are the proxies whose headers count: X-Forwarded-For, and those that
	// name the sender, which must be dropped header fields. Default none.
	Proxies identity.Proxies
	// CORSOrigins are the origins whose scripts may read answers, "*" for all.
	// Default none.
	CORSOrigins []string
	// MaxBodyBytes bounds a request's body; a larger one is answered with 413.
	// Default 64 MiB: smaller cuts prompts with images, larger lets few clients
	// fill the memory.
	MaxBodyBytes int64
	// MaxConcurrent bounds requests in progress; further ones are answered with
	// 429. Default 4096. A stream takes about 40 KB.
	MaxConcurrent int
	// MaxBytesInFlight bounds the memory of request bodies that are held, each
	// until its response head came. Default 2 GiB.
	MaxBytesInFlight int64
}

// Authenticator turns what a client presented into a principal. Its method is
// called by many goroutines at once.
type Authenticator interface {
	// Authenticate is called before the body is read. The credentials' slices are
	// valid during the call. An error that is, or wraps, a *llmapi.Error is shown to the
	// client as it is; any other stays inside and the client gets status 401.
	Authenticate(c *identity.Credentials) (*identity.Principal, error)
}

// Edge is an EdgeConfig that was checked, with the authenticator of the same
// revision. It is immutable and safe for concurrent use.
type Edge struct {
	hints   hintTable
	proxies identity.Proxies
	origins []string // of EdgeConfig.CORSOrigins
	auth    Authenticator

	maxBody, maxBytes int64
	maxConcurrent     int
}

// NewEdge checks c. The error joins everything that is wrong with it.
func NewEdge(c EdgeConfig, a Authenticator) (*Edge, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if a == nil {
		return nil, errors.New("proxy: no authenticator")
	}
	c = c.withDefaults()
	return &Edge{
		hints: newHintTable(&c.Hints), proxies: c.Proxies, origins: c.CORSOrigins, auth: a,
		maxBody: c.MaxBodyBytes, maxBytes: c.MaxBytesInFlight, maxConcurrent: c.MaxConcurrent,
	}, nil
}

func (c EdgeConfig) withDefaults() EdgeConfig {
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 64 << 20
	}
	if c.MaxConcurrent == 0 {
		c.MaxConcurrent = 4096
	}
	if c.MaxBytesInFlight == 0 {
		c.MaxBytesInFlight = 2 << 30
	}
	if c.Hints.Session == "" {
		c.Hints.Session = "x-kvasir-session"
	}
	if c.Hints.Priority == "" {
		c.Hints.Priority = "x-kvasir-priority"
	}
	return c
}

// Validate reports everything that is wrong with c, joined.
func (c EdgeConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("proxy: %s %v", name, v))
		}
	}
	check(c.MaxBodyBytes >= 0 && c.MaxBodyBytes <= maxBodyLimit, "max_body", c.MaxBodyBytes)
	check(c.MaxConcurrent >= 0, "max_concurrent", c.MaxConcurrent)
	check(c.MaxBytesInFlight >= 0, "max_bytes_in_flight", c.MaxBytesInFlight)
	for _, p := range c.Proxies {
		for _, h := range []string{p.Tenant, p.User, p.Groups} {
			if h != "" && (kindOf([]byte(h), &hintTable{}) != kindDrop || strings.ToLower(h) != h) {
				errs = append(errs, fmt.Errorf("proxy: proxies: header %q would reach engines if a client sent it: "+
					"want one that begins with x-forwarded- or x-tenant-", h))
			}
		}
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("proxy: proxies: %w", err))
		}
	}
	check(len(c.Hints.Labels) <= MaxHintLabels, "hints: number of labels", len(c.Hints.Labels))
	headers, labels := map[string]bool{}, map[string]bool{}
	for _, l := range append([]HintLabel{{"-", c.Hints.Session}, {"=", c.Hints.Priority}}, c.Hints.Labels...) {
		low := strings.ToLower(l.Header)
		if low == "" && (l.Label == "-" || l.Label == "=") {
			continue // the default
		}
		free := isToken([]byte(low)) && len(low) < 64 &&
			(kindOf([]byte(low), &hintTable{}) == kindPass || strings.HasPrefix(low, "x-kvasir-"))
		check(free && !headers[low], "hints: header", l.Header)
		check(!labels[l.Label] && l.Label != "", "hints: label", l.Label)
		headers[low], labels[l.Label] = true, true
	}
	return errors.Join(errs...)
}

// Renew reads the head of the request again by the edge in force: hints, peer
// and principal. A router calls it when the rules that place the request are not
// those that r.Edge belongs to, so that one request is never subject to two
// revisions. The error is that of Authenticate or of a bad header field.
func (r *Request) Renew() error { return r.s.readHeader(r, r.s.p.router.Edge()) }

// readHeader reads the header fields of the request by e and authenticates its
// sender.
func (s *stream) readHeader(r *Request, e *Edge) error {
	r.Edge = e
	if bad := s.client.fields.read(s.client.header, &e.hints); bad != nil {
		return bad
	}
	return s.authenticate(r)
}

// authenticate sets the hints and the principal of r by its edge. The header
// fields have been read by it.
func (s *stream) authenticate(r *Request) error {
	if bad := s.hints(r); bad != nil {
		return bad
	}
	if bad := s.peer(r.Edge); bad != nil {
		return bad
	}
	f := &s.client.fields
	s.client.cred.Authorization, s.client.cred.APIKey = f.one[kindAuthorization], f.one[kindAPIKey]
	principal, err := r.Edge.auth.Authenticate(&s.client.cred)
	r.Principal = principal
	return err
}
