package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Max bounds the endpoints of one source.
const Max = 2048

// Source lists the endpoints of a pool. Its methods are called by one goroutine.
type Source interface {
	// Find returns the base URLs, sorted, without duplicates.
	Find(ctx context.Context) ([]string, error)
}

// ErrEmpty is wrapped when a source lists no endpoint. A fleet that shrinks to
// nothing in one step is more often a mistake than intended.
var ErrEmpty = errors.New("discovery: no endpoint")

// normal checks and sorts the URLs of a source.
func normal(urls []string) ([]string, error) {
	out := make([]string, 0, len(urls))
	for _, s := range urls {
		u, err := baseURL(s)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) == 0 {
		return nil, ErrEmpty
	}
	if len(out) > Max {
		return nil, fmt.Errorf("discovery: %d endpoints, at most %d", len(out), Max)
	}
	return out, nil
}

// baseURL reads host:port or http://host:port.
func baseURL(s string) (string, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := endpoint.ParseURL(s)
	if err != nil {
		return "", fmt.Errorf("discovery: %w", err)
	}
	return u.String(), nil
}

// Resolver has the methods of net.Resolver that are used.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNS finds endpoints by a name's addresses (Port set) or by its SRV records.
type DNS struct {
	Name     string // host name, or the whole SRV name such as _http._tcp.vllm.example
	Port     int    // 0: SRV
	Resolver Resolver
}

// Find implements Source.
func (d *DNS) Find(ctx context.Context) ([]string, error) {
	r := d.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	if d.Port == 0 {
		return d.srv(ctx, r)
	}
	addrs, err := r.LookupHost(ctx, d.Name)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	var out []string
	for _, a := range addrs {
		out = append(out, net.JoinHostPort(a, strconv.Itoa(d.Port)))
	}
	return normal(out)
}

// srv resolves the targets of the SRV records too: an endpoint is identified by its
// address, so a target that moves to another node is another endpoint.
func (d *DNS) srv(ctx context.Context, r Resolver) ([]string, error) {
	_, records, err := r.LookupSRV(ctx, "", "", d.Name)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if len(records) > Max {
		return nil, fmt.Errorf("discovery: %d SRV records, at most %d", len(records), Max)
	}
	var out []string
	for _, s := range records {
		addrs, err := r.LookupHost(ctx, s.Target)
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		for _, a := range addrs {
			out = append(out, net.JoinHostPort(a, strconv.Itoa(int(s.Port))))
		}
	}
	return normal(out)
}
