package wasm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/tetratelabs/wazero/api"
)

var errExit = errors.New("proc_exit")

// stopped is fuel so far below zero that no charge brings it back, and so far
// above the lowest number that none wraps around.
const stopped = ^uint64(1<<40 - 1)

// maxLastText is the most bytes of a guest's output that are kept.
const maxLastText = 256

// instance is one instance of a plugin's module. One caller at a time.
type instance struct {
	plugin  string
	mod     api.Module
	mem     api.Memory
	own     *memory // what mem lies in
	fuel    api.MutableGlobal
	slice   api.MutableGlobal // nil: plain form
	alloc   api.Function
	errFn   api.Function // nil = not exported
	roles   [NumRoles]api.Function
	ctx     context.Context // carries the instance to host functions
	states  []any           // per host module of the runtime
	logs    bool            // the log is granted
	printed *atomic.Int64   // of the plugin

	call     Call
	role     Role
	started  bool // past configure
	violated *Fault
	nanos    int64  // the guest's clock, never decreasing
	random   uint64 // state of the guest's random numbers
	budget   int64
	base     uint32 // arena
	size     uint32 // bytes of the arena
	uses     uint64
	atStart  uint32 // bytes of memory after the start
	laid     layout // of the last call of score, with laidN candidates
	laidN    uint32
	old      bool     // grew: to be replaced
	trace    *tracing // set during a Tracer's call
	clocked  bool     // not in the pool yet: every call is timed into took
	took     time.Duration
	lastText []byte // last bytes written to a descriptor: a Go guest's panic
	stack    [4]uint64
}

// attach sets the fields that host calls need while a start section runs, before the
// engine has returned the module.
func (in *instance) attach(mod api.Module) {
	if in.mem != nil {
		return
	}
	in.mem = mod.Memory()
	in.fuel, _ = mod.ExportedGlobal(fuelGlobal).(api.MutableGlobal)
	in.slice, _ = mod.ExportedGlobal(sliceGlobal).(api.MutableGlobal)
}

// chargeHost takes units from the running call; the guest traps at its next
// charge when none are left.
func (in *instance) chargeHost(units int64) {
	g := in.fuel
	if in.slice != nil {
		g = in.slice
	}
	g.Set(uint64(int64(g.Get()) - units))
}

// violate records the first breach of a rule and stops the guest.
func (in *instance) violate(r Reason, detail string) {
	if in.violated == nil {
		in.violated = &Fault{Plugin: in.plugin, Reason: r, Detail: detail}
	}
	in.fuel.Set(stopped)
	if in.slice != nil {
		in.slice.Set(stopped)
	}
}

// keepText keeps the output of a guest for the detail of a fault.
func (in *instance) keepText(text []byte) {
	in.lastText = append(in.lastText, text[:min(len(text), maxLastText-len(in.lastText))]...)
}

// setFuel begins a call with a budget.
func (in *instance) setFuel(budget int64) {
	in.budget = budget
	in.fuel.Set(uint64(budget))
	if in.slice != nil {
		in.slice.Set(0)
	}
}

// used returns the units spent since setFuel.
func (in *instance) used() int64 {
	left := int64(in.fuel.Get())
	if in.slice != nil {
		left += int64(in.slice.Get())
	}
	return in.budget - left
}

// invoke calls f, whose parameters and result are in in.stack. The error is a
// *Fault without a role.
func (in *instance) invoke(f api.Function) error {
	err := f.CallWithStack(in.ctx, in.stack[:])
	if err == nil && in.violated == nil {
		return nil
	}
	return in.faultOf(err)
}

// faultOf returns the fault that ended a call.
func (in *instance) faultOf(err error) *Fault {
	if in.violated != nil {
		return in.violated
	}
	f := &Fault{Plugin: in.plugin, Reason: ReasonTrap}
	left := int64(in.fuel.Get())
	text := err.Error()
	switch {
	case strings.Contains(text, "stack overflow"):
		f.Reason = ReasonStack
	case left < 0:
		f.Reason = ReasonFuel
		f.Detail = fmt.Sprintf("used up its budget of %d units", in.budget)
		return f
	}
	text, _, _ = strings.Cut(text, "\n")
	f.Detail = strings.TrimPrefix(text, "wasm error: ")
	if len(in.lastText) > 0 {
		f.Detail += ": " + strings.ToValidUTF8(strings.TrimSpace(string(in.lastText)), "?")
	}
	return f
}

// ensure makes the arena at least size bytes.
func (in *instance) ensure(size uint32, budget int64) error {
	if size <= in.size {
		return nil
	}
	in.setFuel(budget)
	in.stack[0] = uint64(size)
	if err := in.invoke(in.alloc); err != nil {
		return err
	}
	base := uint32(in.stack[0])
	detail := ""
	switch mem := in.mem.Size(); {
	case base == 0:
		detail = fmt.Sprintf("no memory for %d bytes", size)
	case base%abi.BaseAlign != 0:
		detail = fmt.Sprintf("address %d is not a multiple of %d", base, abi.BaseAlign)
	case uint64(base)+uint64(size) > uint64(mem):
		detail = fmt.Sprintf("%d bytes at %d are outside memory of %d", size, base, mem)
	}
	if detail != "" {
		return &Fault{Plugin: in.plugin, Reason: ReasonAlloc, Detail: detail}
	}
	in.base, in.size = base, size
	return nil
}

// view returns size bytes of the arena, valid while the instance is: its memory
// stays where it is, never shrinks, and ensure checked the end.
func (in *instance) view(size uint32) []byte {
	return in.own.all[in.base : in.base+size : in.base+size]
}

// setClock sets the guest's clock and the seed of its random numbers.
func (in *instance) setClock(nowMS float64, seed uint64) {
	if ns := nowMS * 1e6; ns > float64(in.nanos) && ns < math.MaxInt64 {
		in.nanos = int64(ns)
	}
	in.random = seed
}

// run calls a role with the arena and turns its status into an error.
func (in *instance) run(role Role, budget int64) error {
	in.role = role
	in.uses++
	in.lastText = in.lastText[:0]
	in.setFuel(budget)
	in.stack[0] = uint64(in.base)
	if err := in.invoke(in.roles[role]); err != nil {
		return err
	}
	switch status := uint32(in.stack[0]); {
	case status == abi.StatusOK:
		return nil
	case status == abi.StatusAbstain:
		return ErrAbstain
	case status == abi.StatusUnsupported && role == Configure:
		return nil
	case status == abi.StatusUnsupported && role > Idle:
		return ErrUnsupported
	default:
		return &Fault{Plugin: in.plugin, Reason: ReasonStatus,
			Detail: fmt.Sprintf("status %d%s", status, in.errorText(budget))}
	}
}

// errorText asks a guest that returned a status ≥ 2 why.
func (in *instance) errorText(budget int64) string {
	if in.errFn == nil {
		return ""
	}
	in.setFuel(budget)
	if in.invoke(in.errFn) != nil {
		return ""
	}
	n := min(uint32(in.stack[0]), abi.MaxErrorBytes)
	b, ok := in.mem.Read(uint32(in.stack[0]>>32), n)
	if !ok || len(b) == 0 {
		return ""
	}
	s := string(b)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return ": " + s
}

// close frees the instance's memory.
func (in *instance) close() {
	if in.mod != nil {
		_ = in.mod.Close(context.Background()) // frees memory; has nothing to report
	}
}
