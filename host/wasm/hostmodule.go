package wasm

import (
	"context"
	"fmt"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Value is a type of a host function's parameter or result.
type Value byte

const (
	I32 Value = typeI32
	I64 Value = typeI64
	F64 Value = typeF64
)

// HostModule is a module that guests may import, by name and version.
type HostModule struct {
	Name  string
	Funcs []HostFunc

	// Open creates the module's state for one plugin, at load; nil = no state.
	Open func(Guest) (state any, err error)
	// Close closes that state when the plugin is closed; nil = no call.
	Close func(state any)
}

// HostFunc is one function of a HostModule. Call must not block, must not
// keep c or what c.Read returned, and may run on several instances at once.
// stack holds the parameters on entry and the results on return.
type HostFunc struct {
	Name            string
	Params, Results []Value
	Call            func(c *Call, stack []uint64)
	Units           int64 // fuel of a call beside its bytes, 0 = abi.FuelHostCall
}

// Guest identifies the plugin that a HostModule is opened for.
type Guest struct {
	Plugin       string
	StateVersion uint32
	Overlay      bool // writes must not be seen by others: shadow or canary
}

// Call is one running host call.
type Call struct {
	in    *instance
	state any
}

// State returns the state that the module's Open returned for this plugin.
func (c *Call) State() any { return c.state }

// Role returns the role the guest is called in; Idle while it starts.
func (c *Call) Role() Role { return c.in.role }

// Hot reports whether a request waits for the guest.
func (c *Call) Hot() bool { return c.in.started && c.in.role.hot() }

// Plugin returns the plugin's name.
func (c *Call) Plugin() string { return c.in.plugin }

// Read returns n bytes of guest memory, valid until the call returns; writes
// go through. ok is false when they are outside memory, which is a fault.
func (c *Call) Read(addr, n uint32) (b []byte, ok bool) {
	b, ok = c.in.mem.Read(addr, n)
	if !ok {
		c.Fail(ReasonTrap, fmt.Sprintf("host call reads %d bytes at %d, outside memory", n, addr))
		return nil, false
	}
	c.in.chargeHost(int64(n) / abi.FuelHostBytes)
	return b, true
}

// Charge takes fuel for costs of a call beyond the bytes it reads.
func (c *Call) Charge(units int64) { c.in.chargeHost(units) }

// Fail turns the running guest call into a fault; it ends at its next charge.
func (c *Call) Fail(r Reason, detail string) { c.in.violate(r, detail) }

type instanceKey struct{}

// guestContext carries an instance to host functions. Unlike a context with a
// value it answers the engine, which asks for one of its own with every call,
// without a walk to the root.
type guestContext struct {
	context.Context
	in *instance
}

// Value implements context.Context.
func (c *guestContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.in
	}
	return nil
}

func instanceOf(ctx context.Context) *instance {
	in, _ := ctx.Value(instanceKey{}).(*instance)
	return in
}

// link instantiates m in the engine. at is its place in instance.states.
func link(ctx context.Context, rt wazero.Runtime, m *HostModule, at int) error {
	b := rt.NewHostModuleBuilder(m.Name)
	for _, f := range m.Funcs {
		call, units := f.Call, f.Units
		if units == 0 {
			units = abi.FuelHostCall
		}
		fn := api.GoModuleFunc(func(ctx context.Context, mod api.Module, stack []uint64) {
			in := instanceOf(ctx)
			in.attach(mod)
			in.chargeHost(units)
			in.call.state = in.states[at]
			call(&in.call, stack)
		})
		b = b.NewFunctionBuilder().WithGoModuleFunction(fn, values(f.Params), values(f.Results)).Export(f.Name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

func values(v []Value) []api.ValueType {
	out := make([]api.ValueType, len(v))
	for i, t := range v {
		out[i] = api.ValueType(t)
	}
	return out
}

// signature is f's type in the words of the module parser.
func (f *HostFunc) signature() funcType {
	t := funcType{params: make([]byte, len(f.Params)), results: make([]byte, len(f.Results))}
	for i, v := range f.Params {
		t.params[i] = byte(v)
	}
	for i, v := range f.Results {
		t.results[i] = byte(v)
	}
	return t
}
