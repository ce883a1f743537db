package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/replay/router"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Policy makes the router of a run.
type Policy struct {
	Name   string
	Title  string
	Scrape time.Duration // period of scrapes; 0 = the product's
	New    func(engines []virtual.Engine, seed uint64) (virtual.Router, error)
}

// Product returns the product's scheduler with a profile.
func Product(name string, p scheduler.Profile) Policy {
	return Policy{Name: name, Title: "Kvasir", New: func(e []virtual.Engine, seed uint64) (virtual.Router, error) {
		return router.New(e, router.Options{Profile: p, Seed: seed})
	}}
}

// Peer returns a policy of package router with constants that replace its own.
func Peer(name string, set map[string]float64) (Policy, error) {
	p, err := router.FindPeer(name)
	if err != nil {
		return Policy{}, err
	}
	return Policy{Name: p.Name, Title: p.Title, Scrape: p.Scrape,
		New: func(e []virtual.Engine, seed uint64) (virtual.Router, error) { return p.New(e, set, seed) }}, nil
}

// ParsePeer returns the policy of a text: NAME, or NAME:CONSTANT=VALUE,…
func ParsePeer(text string) (Policy, error) {
	set, err := parseConstants(text)
	if err != nil {
		return Policy{}, err
	}
	name, _, _ := strings.Cut(text, ":")
	p, err := Peer(name, set)
	p.Name = text
	return p, err
}

// parseConstants returns the constants of the text of a policy.
func parseConstants(text string) (map[string]float64, error) {
	_, rest, _ := strings.Cut(text, ":")
	set := map[string]float64{}
	for _, pair := range strings.Split(rest, ",") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		x, err := strconv.ParseFloat(v, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("scenario: policy %q: want NAME:CONSTANT=NUMBER,…", text)
		}
		set[k] = x
	}
	return set, nil
}

// PeerNames returns the names of the policies of package router.
func PeerNames() (out []string) {
	for _, p := range router.Peers() {
		out = append(out, p.Name)
	}
	return out
}

// PeerHelp lists these policies with their constants, a line each.
func PeerHelp() string {
	var b strings.Builder
	for _, p := range router.Peers() {
		fmt.Fprintf(&b, "  %-14s %s", p.Name, p.Title)
		for i, x := range p.Params {
			sep := ","
			if i == 0 {
				sep = "; "
			}
			fmt.Fprintf(&b, "%s%s=%g", sep, x.Name, x.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
