// Package plugincheck checks a plugin: it calls its roles with batches of many sizes and
// looks for violations of the ABI. `kvasir plugin check` and a router that receives a
// push both call it, so that they reject the same modules. The examples of the SDKs must
// pass it too.
package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// Options control how a plugin is checked.
type Options struct {
	Config []byte   // JSON for kvasir_configure
	Grants []string // modules it may import
	// Calls of the check for growing memory; 0 = 2,000. 100,000 find a
	// slow leak.
	Calls int
	// CallTime is the ceiling of a call, as wasm.Options has it; 0 = its default.
	CallTime time.Duration
}

// Result is one check.
type Result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // why not, or a figure
}

// Report is the result of all checks.
type Report struct {
	Name              string   `json:"name,omitempty"`
	Version           string   `json:"version,omitempty"`
	Digest            string   `json:"digest,omitempty"`
	Bytes             int      `json:"bytes"`
	Roles             []string `json:"roles,omitempty"`
	Imports           []string `json:"imports,omitempty"`
	UnitsPerCandidate float64  `json:"units_per_candidate"`
	Sliced            bool     `json:"sliced"` // needs the form for expensive modules
	MemoryBytes       uint32   `json:"memory_bytes"`
	Results           []Result `json:"results"`
}

// OK reports whether every check passed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(x Result) bool { return !x.OK })
}

// String returns one line per check.
func (r *Report) String() string {
	var b strings.Builder
	for _, x := range r.Results {
		mark := "ok  "
		if !x.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s", mark, x.Name)
		if x.Detail != "" {
			fmt.Fprintf(&b, ": %s", x.Detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *Report) add(name string, err error) bool {
	x := Result{Name: name, OK: err == nil}
	if err != nil {
		x.Detail = err.Error()
	}
	r.Results = append(r.Results, x)
	return x.OK
}

// Check checks a module. The error is one of the checker; errors of the plugin are in
// the report.
func Check(ctx context.Context, code []byte, opt Options) (*Report, error) {
	rt, err := wasm.New(ctx, wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	rep := &Report{Bytes: len(code)}
	p, err := rt.Load(ctx, code, wasm.Options{Config: opt.Config, Grants: opt.Grants, Instances: 1,
		CallTime: opt.CallTime})
	if !rep.add("load", err) {
		return rep, nil
	}
	defer p.Close()
	rep.run(ctx, rt, p, opt.Calls)
	return rep, nil
}

// Verify checks a loaded plugin that has no other users. The error lists the failed
// checks, nil = none. It has the type of wasm.Config.Check.
func Verify(ctx context.Context, rt *wasm.Runtime, p *wasm.Plugin) error {
	rep := new(Report)
	rep.run(ctx, rt, p, 0)
	if err := ctx.Err(); err != nil {
		return err
	}
	return rep.Err()
}

// Err returns the failed checks as an error, nil = none.
func (r *Report) Err() error {
	var errs []error
	for _, x := range r.Results {
		if !x.OK {
			errs = append(errs, fmt.Errorf("%s: %s", x.Name, x.Detail))
		}
	}
	return errors.Join(errs...)
}

// run runs all checks of a plugin.
func (r *Report) run(ctx context.Context, rt *wasm.Runtime, p *wasm.Plugin, calls int) {
	r.describe(p)
	for role := wasm.Filter; role <= wasm.Pick; role++ {
		if p.Has(role) {
			c := &checker{ctx: ctx, p: p, role: role, calls: calls, rep: r}
			c.run()
		}
	}
	if p.Has(wasm.Observe) {
		r.add("observe", checkObserve(p))
	}
	if p.Has(wasm.Autoscale) {
		r.add("x_autoscale", checkAutoscale(p))
	}
	rt.Maintain(ctx, time.Now()) // replaces an instance that was lost above
	if p.Has(wasm.BackendParse) {
		r.add("x_backend_parse", checkDocuments(func(doc []byte) error { _, err := p.BackendParse(doc, 1.7e12); return err }))
	}
	rt.Maintain(ctx, time.Now())
	if p.Has(wasm.Discover) {
		r.add("x_discover", checkDocuments(func(doc []byte) error { _, err := p.Discover(doc, 1.7e12); return err }))
	}
}

func (r *Report) describe(p *wasm.Plugin) {
	m, s := p.Manifest(), p.Stats()
	r.Name, r.Version, r.Digest, r.Imports = m.Name, m.Version, p.Digest(), m.Imports
	r.UnitsPerCandidate, r.Sliced = s.UnitsPerCandidate, s.Sliced
	for role := range wasm.NumRoles {
		if p.Has(role) {
			r.Roles = append(r.Roles, role.String())
		}
	}
}

// checkObserve calls observe with batches of several sizes.
func checkObserve(p *wasm.Plugin) error {
	for _, n := range []int{0, 1, 17, 500} {
		o := &wasm.Outcomes{N: n, NowMS: 1.7e12, Endpoints: []uint32{abi.EndpointID(0, 1), abi.EndpointID(1, 1),
			abi.EndpointID(2, 1)}}
		rows := make([]uint32, n)
		for i := range rows {
			rows[i] = uint32(i % 3)
		}
		o.U32[abi.OutEndpointRow] = rows
		if err := p.Observe(o); err != nil && !errors.Is(err, wasm.ErrAbstain) {
			return fmt.Errorf("%d outcomes: %w", n, err)
		}
	}
	return nil
}
