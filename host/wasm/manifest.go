package wasm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
)

// Role is a function of a plugin.
type Role uint8

const (
	Filter Role = iota
	Score
	Pick
	Observe
	Configure
	Idle
	Autoscale // this and what follows are experimental
	BackendParse
	Discover
	NumRoles // how many there are
)

var roleNames = [NumRoles]string{"filter", "score", "pick", "observe", "configure", "idle", "x_autoscale",
	"x_backend_parse", "x_discover"}

var roleExports = [NumRoles]string{abi.ExportFilter, abi.ExportScore, abi.ExportPick,
	abi.ExportObserve, abi.ExportConfigure, abi.ExportIdle, abi.ExportAutoscale, abi.ExportBackendParse,
	abi.ExportDiscover}

// String returns the manifest's word for r.
func (r Role) String() string { return roleNames[r] }

// pinned reports whether r is called on the one pinned instance, off the request
// path, and makes a plugin of its own.
func (r Role) pinned() bool { return r == Observe || r > Idle }

// hot reports whether r is called while a request waits.
func (r Role) hot() bool { return r <= Pick }

// Limits of a manifest's lists.
const (
	maxColumns = 64
	maxReasons = 1024
)

// ColumnRef names a column a role reads.
type ColumnRef struct {
	Name     string
	Optional bool // false: a host that does not know it must not load the plugin
}

// RoleSpec is the part of a manifest about one role.
type RoleSpec struct {
	Columns []ColumnRef
	Request []ColumnRef
	Reasons []string // filter: drop reasons 1…
	Terms   []string // score: parts of a score, for explain
	Unit    string   // score: abi.UnitPlain or abi.UnitCostTokens
}

// Publication is a column that observe publishes.
type Publication struct {
	Name    string
	Default float32
}

// Manifest is the description that a plugin exports. It is immutable.
type Manifest struct {
	Name, Version, ABI string
	Roles              [NumRoles]*RoleSpec // nil = the plugin has no such role
	Publishes          []Publication
	Imports            []string
	StateVersion       uint32

	schema *configSchema // of the configuration, nil = none
}

// ParseManifest reads a manifest strictly: keys that are unknown or stand
// twice, wrong types and values outside SPEC.md section 3 are errors.
func ParseManifest(text []byte) (*Manifest, error) {
	if len(text) > abi.MaxManifestBytes {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), abi.MaxManifestBytes)
	}
	o, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := o.each(m.member); err != nil {
		return nil, err
	}
	return m, m.validate()
}

// CheckConfig returns why a plugin does not take a configuration, JSON: it has no role that
// reads one, or its config_schema refuses it; nil = it does. Every plugin takes an empty
// text, and {} if there is no schema.
func (m *Manifest) CheckConfig(config []byte) error {
	if len(config) == 0 {
		return nil
	}
	if m.schema != nil {
		if err := m.schema.check(config); err != nil {
			return err
		}
	}
	if m.Roles[Configure] == nil && !emptyObject(config) {
		return fmt.Errorf("config: the plugin reads none: its manifest has no role %q; remove the configuration", Configure)
	}
	return nil
}

// emptyObject reports whether a JSON text is {}.
func emptyObject(text []byte) bool {
	o, err := parseObject(text)
	return err == nil && len(o.members) == 0
}

func (m *Manifest) member(at, key string, v any) (bool, error) {
	var err error
	switch key {
	case "name":
		m.Name, err = wantString(at, v)
	case "version":
		m.Version, err = wantString(at, v)
	case "abi":
		m.ABI, err = wantString(at, v)
	case "roles":
		err = m.readRoles(at, v)
	case "publishes":
		err = m.readPublishes(at, v)
	case "imports":
		m.Imports, err = wantStrings(at, v, maxColumns)
	case "state_version":
		n, ok := v.(json.Number)
		i, e := n.Int64()
		if !ok || e != nil || i < 0 || i > math.MaxUint32 {
			return true, fmt.Errorf("%s is not a whole number of 32 bits", at)
		}
		m.StateVersion = uint32(i)
	case "config_schema":
		var o *object
		if o, err = wantObject(at, v); err == nil {
			m.schema, err = readSchema(at, o)
		}
	default:
		return false, nil
	}
	return true, err
}

func (m *Manifest) readRoles(at string, v any) error {
	o, err := wantObject(at, v)
	if err != nil {
		return err
	}
	return o.each(func(at, key string, v any) (bool, error) {
		r := slices.Index(roleNames[:], key)
		if r < 0 {
			return false, nil
		}
		spec, err := readRole(at, v, Role(r))
		m.Roles[r] = spec
		return true, err
	})
}

func readRole(at string, v any, role Role) (*RoleSpec, error) {
	o, err := wantObject(at, v)
	if err != nil {
		return nil, err
	}
	spec := &RoleSpec{}
	if role == Score {
		spec.Unit = abi.UnitPlain
	}
	return spec, o.each(func(at, key string, v any) (bool, error) {
		var err error
		switch {
		case key == "columns" && role <= Observe:
			spec.Columns, err = readColumns(at, v)
		case key == "request" && role.hot():
			spec.Request, err = readColumns(at, v)
		case key == "reasons" && role == Filter:
			spec.Reasons, err = wantStrings(at, v, maxReasons)
		case key == "terms" && role == Score:
			spec.Terms, err = wantStrings(at, v, maxColumns)
		case key == "unit" && role == Score:
			spec.Unit, err = wantString(at, v)
			if err == nil && spec.Unit != abi.UnitPlain && spec.Unit != abi.UnitCostTokens {
				err = fmt.Errorf("%s is %q, want %q or %q", at, spec.Unit, abi.UnitCostTokens, abi.UnitPlain)
			}
		default:
			return false, nil
		}
		return true, err
	})
}

func readColumns(at string, v any) ([]ColumnRef, error) {
	l, err := wantList(at, v, maxColumns)
	if err != nil {
		return nil, err
	}
	out := make([]ColumnRef, len(l))
	for i, e := range l {
		if s, ok := e.(string); ok {
			out[i].Name = s
		} else if out[i], err = readColumn(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
			return nil, err
		}
		if out[i].Name == "" {
			return nil, fmt.Errorf("%s[%d] has no name", at, i)
		}
	}
	return out, nil
}

func readColumn(at string, v any) (c ColumnRef, err error) {
	o, err := wantObject(at, v)
	if err != nil {
		return c, err
	}
	return c, o.each(func(at, key string, v any) (bool, error) {
		var err error
		switch key {
		case "name":
			c.Name, err = wantString(at, v)
		case "optional":
			ok := false
			if c.Optional, ok = v.(bool); !ok {
				err = fmt.Errorf("%s is not true or false", at)
			}
		default:
			return false, nil
		}
		return true, err
	})
}

func (m *Manifest) readPublishes(at string, v any) error {
	l, err := wantList(at, v, maxColumns)
	if err != nil {
		return err
	}
	for i, e := range l {
		o, err := wantObject(fmt.Sprintf("%s[%d]", at, i), e)
		if err != nil {
			return err
		}
		var p Publication
		err = o.each(func(at, key string, v any) (bool, error) {
			var err error
			switch key {
			case "name":
				p.Name, err = wantString(at, v)
			case "default":
				n, ok := v.(json.Number)
				f, e := n.Float64()
				if p.Default = float32(f); !ok || e != nil || math.IsInf(float64(p.Default), 0) {
					err = fmt.Errorf("%s is not a number of 32 bits", at)
				}
			default:
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return err
		}
		m.Publishes = append(m.Publishes, p)
	}
	return nil
}

// validate checks values, and members against each other.
func (m *Manifest) validate() error {
	if !validName(m.Name) {
		return fmt.Errorf("name %q is not 1…63 of a-z, 0-9, -, beginning with a letter", m.Name)
	}
	if n := len(m.Version); n < 1 || n > 64 {
		return fmt.Errorf("version of %d bytes, want 1…64", n)
	}
	if !m.has(func(r Role) bool { return r.hot() || r.pinned() }) {
		return fmt.Errorf("no role among filter, score, pick, observe, x_autoscale, x_backend_parse, x_discover")
	}
	if len(m.Publishes) > 0 && m.Roles[Observe] == nil {
		return fmt.Errorf("publishes without the role observe")
	}
	seen := map[string]bool{}
	for _, p := range m.Publishes {
		if seen[p.Name] || !strings.Contains(p.Name, "/") || strings.HasPrefix(p.Name, labelPrefix) || len(p.Name) > 128 {
			return fmt.Errorf("published column %q: want a unique name with a slash that is not reserved", p.Name)
		}
		seen[p.Name] = true
	}
	for _, i := range m.Imports {
		if seen[i] {
			return fmt.Errorf("duplicate import %q", i)
		}
		seen[i] = true
	}
	return nil
}

// has reports whether a role has a property.
func (m *Manifest) has(is func(Role) bool) bool {
	for r, s := range m.Roles {
		if s != nil && is(Role(r)) {
			return true
		}
	}
	return false
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > 63 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range s {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
