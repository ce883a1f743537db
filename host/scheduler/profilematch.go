package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/policy"
)

// ProfileMatch is a kind of requests that a profile is for. All conditions that are
// set must hold.
type ProfileMatch struct {
	Models     []string // names of models, as configured; empty = any
	Operations []string // names of operations, as policy knows them; empty = any
	// Labels is the values by label of the request or its credential; every label must
	// have one of its values.
	Labels map[string][]string
}

// holds reports whether the request is of this kind.
func (m *ProfileMatch) holds(model, operation string, labels []policy.Label) bool {
	if len(m.Models) > 0 && !slices.Contains(m.Models, model) ||
		len(m.Operations) > 0 && !slices.Contains(m.Operations, operation) {
		return false
	}
	for name, values := range m.Labels {
		at, ok := slices.BinarySearchFunc(labels, name, func(l policy.Label, name string) int {
			return strings.Compare(l.Name, name)
		})
		if !ok || !slices.Contains(values, labels[at].Value) {
			return false
		}
	}
	return true
}

// profileRule is one match of one profile.
type profileRule struct {
	match   ProfileMatch
	profile *profile
	why     string // for explain
}

// profileRules lists the matches of all profiles, in their order.
func profileRules(all []Profile, by map[string]*profile) (out []profileRule) {
	for _, p := range all {
		for i := range p.Match {
			out = append(out, profileRule{p.Match[i], by[p.Name], fmt.Sprintf("its match[%d] holds", i)})
		}
	}
	return out
}

// Reasons of a profile, for explain; a match has its own.
const (
	profileByPolicy  = "policy named it"
	profileByDefault = "no other profile matches"
	profileOnly      = "no profile has a match"
)

// chooseProfile sets the profile: the one that policy names, else the first with a match
// that holds, else the default. It returns false if policy names one that does not exist.
func (d *decision) chooseProfile() bool {
	s := d.s
	if d.dec.Profile != "" {
		d.prof, d.profWhy = s.profiles[d.dec.Profile], profileByPolicy
		return d.prof != nil
	}
	d.prof, d.profWhy = s.profiles[""], profileOnly
	if len(s.rules) == 0 {
		return true
	}
	d.profWhy = profileByDefault
	for i := range s.rules {
		if r := &s.rules[i]; r.match.holds(d.model.name, d.in.Operation, d.in.Labels) {
			d.prof, d.profWhy = r.profile, r.why
			return true
		}
	}
	return true
}
