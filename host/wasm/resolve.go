package wasm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
)

// resolve turns the manifest's names into places of this host, and opens the
// host modules it imports. It runs once, before the first configure.
func (p *Plugin) resolve(in *instance) error {
	if want := fmt.Sprintf("%d.%d", abi.Major, abi.Minor); p.manifest.ABI != want {
		return loadErr("manifest", fmt.Errorf("abi is %q, but kvasir_abi returns %s", p.manifest.ABI, want))
	}
	for _, pub := range p.manifest.Publishes {
		c, _ := p.rt.board.open(pub.Name, pub.Default, true)
		p.pubs, p.used = append(p.pubs, c), append(p.used, c)
	}
	for r, s := range p.manifest.Roles {
		if s == nil {
			continue
		}
		sp, err := p.resolveRole(Role(r), s)
		if err != nil {
			return loadErr("columns", fmt.Errorf("%s: %w", Role(r), err))
		}
		p.specs[r] = sp
	}
	for _, name := range p.manifest.Imports {
		if err := p.open(name); err != nil {
			return loadErr("grants", err)
		}
	}
	in.logs = p.granted[abi.ModuleLog]
	return nil
}

func (p *Plugin) open(name string) error {
	at := slices.IndexFunc(p.rt.modules, func(h *HostModule) bool { return h.Name == name })
	if at < 0 {
		return fmt.Errorf("the manifest lists unknown module %s", name)
	}
	if at > 0 && !p.granted[name] {
		return fmt.Errorf("%s is not granted to this plugin", name)
	}
	h := p.rt.modules[at]
	if h.Open == nil {
		return nil
	}
	st, err := h.Open(Guest{Plugin: p.name, StateVersion: p.manifest.StateVersion, Overlay: p.opt.Overlay})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.states[at], p.opened[at] = st, true
	return nil
}

func (p *Plugin) resolveRole(r Role, s *RoleSpec) (*spec, error) {
	sp := &spec{reasons: uint32(len(s.Reasons)), nterms: uint32(len(s.Terms))}
	for _, c := range s.Columns {
		if r == Observe {
			id := findColumn(abi.OutcomeColumns[:], c.Name)
			if id < 0 && !c.Optional {
				return nil, fmt.Errorf("unknown outcome column %q", c.Name)
			}
			sp.outs = append(sp.outs, id)
			continue
		}
		col, ok := p.resolveColumn(c.Name)
		if !ok && !c.Optional {
			return nil, fmt.Errorf("unknown column %q", c.Name)
		}
		sp.cols = append(sp.cols, col)
	}
	for _, c := range s.Request {
		id := findColumn(abi.RequestColumns[:], c.Name)
		if id < 0 && !c.Optional {
			return nil, fmt.Errorf("unknown request column %q", c.Name)
		}
		sp.req = append(sp.req, id)
	}
	return sp, nil
}

func findColumn(reg []abi.Column, name string) int {
	return slices.IndexFunc(reg, func(c abi.Column) bool { return c.Name == name })
}

func (p *Plugin) resolveColumn(name string) (c column, ok bool) {
	if id := findColumn(abi.Columns[:], name); id >= 0 {
		reg := abi.Columns[id]
		c = column{kind: colF32, id: id, def: math.Float32bits(float32(reg.Default))}
		if reg.Type == abi.U32 {
			c.def, c.kind = uint32(reg.Default), colEndpoint
			if id == abi.ColAdapterState {
				c.kind = colAdapter
			}
		}
		return c, true
	}
	if label, ok := strings.CutPrefix(name, labelPrefix); ok {
		key, value, ok := strings.Cut(label, "=")
		return column{kind: colLabel, key: key, value: value}, ok && key != ""
	}
	if !strings.Contains(name, "/") {
		return column{}, false
	}
	pub, ok := p.rt.board.open(name, 0, false)
	if !ok {
		return column{}, false
	}
	p.used = append(p.used, pub)
	return column{kind: colPublished, pub: pub, def: math.Float32bits(pub.def)}, true
}
