package wasm

import (
	"encoding/binary"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// Numbers of WASI preview 1 (wasi_snapshot_preview1/witx/typenames.witx).
const (
	wasiBadF   = 8
	wasiFault  = 21
	wasiInval  = 28
	wasiEvent  = 32 // bytes of an event
	wasiSub    = 48 // bytes of a subscription
	maxWASIIO  = 64 // iovecs of fd_write, subscriptions of poll_oneoff
	maxWASILen = 4096
)

// wasiModule is the part of WASI that guests of the Go toolchain import: ten functions
// without files or sockets. Its clock is fixed at the batch's now_ms during a call
// (a clock that ran ahead of the host's made Go's collector fall behind until
// it was out of memory), its random numbers follow from the batch's seed, and
// writes to descriptors 1 and 2 go to log.
func wasiModule(log func(plugin, text string)) *HostModule {
	i32s := func(n int) []Value {
		v := make([]Value, n)
		for i := range v {
			v[i] = I32
		}
		return v
	}
	one := i32s(1)
	return &HostModule{Name: abi.ModuleWASI, Funcs: []HostFunc{
		{Name: "args_get", Params: i32s(2), Results: one, Call: wasiOK},
		{Name: "args_sizes_get", Params: i32s(2), Results: one, Call: wasiNoStrings},
		{Name: "clock_time_get", Params: []Value{I32, I64, I32}, Results: one, Call: wasiClock},
		{Name: "environ_get", Params: i32s(2), Results: one, Call: wasiOK},
		{Name: "environ_sizes_get", Params: i32s(2), Results: one, Call: wasiNoStrings},
		{Name: "fd_write", Params: i32s(4), Results: one, Call: func(c *Call, st []uint64) { st[0] = wasiWrite(c, st, log) },
			Units: abi.FuelHostSystem},
		{Name: "poll_oneoff", Params: i32s(4), Results: one, Call: func(c *Call, st []uint64) { st[0] = wasiPoll(c, st) }},
		{Name: "proc_exit", Params: one, Call: func(c *Call, _ []uint64) { c.Fail(ReasonTrap, "proc_exit"); panic(errExit) }},
		{Name: "random_get", Params: i32s(2), Results: one, Call: wasiRandom},
		{Name: "sched_yield", Results: one, Call: wasiOK},
	}}
}

func wasiOK(_ *Call, st []uint64) { st[0] = 0 }

// wasiNoStrings writes a count of 0 and a size of 0.
func wasiNoStrings(c *Call, st []uint64) {
	a, ok := c.Read(uint32(st[0]), 4)
	b, ok2 := c.Read(uint32(st[1]), 4)
	if !ok || !ok2 {
		st[0] = wasiFault
		return
	}
	clear(a)
	clear(b)
	st[0] = 0
}

func wasiClock(c *Call, st []uint64) {
	clock := uint32(st[0])
	b, ok := c.Read(uint32(st[2]), 8)
	switch {
	case !ok:
		st[0] = wasiFault
	case clock > 1:
		st[0] = wasiInval
	default:
		binary.LittleEndian.PutUint64(b, uint64(c.in.nanos))
		st[0] = 0
	}
}

func wasiRandom(c *Call, st []uint64) {
	b, ok := c.Read(uint32(st[0]), uint32(st[1]))
	if !ok {
		st[0] = wasiFault
		return
	}
	c.Charge(int64(len(b))/abi.FuelRandomBytes - int64(len(b))/abi.FuelHostBytes)
	state := c.in.random
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, splitmix(&state))
		b = b[8:]
	}
	if len(b) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], splitmix(&state))
		copy(b, word[:])
	}
	c.in.random = state
	st[0] = 0
}

// splitmix is SplitMix64 (Steele, Lea, Flood 2014).
func splitmix(s *uint64) uint64 {
	*s += 0x9e3779b97f4a7c15
	z := *s
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func wasiWrite(c *Call, st []uint64, log func(plugin, text string)) uint64 {
	fd, at, n := uint32(st[0]), uint32(st[1]), uint32(st[2])
	if fd != 1 && fd != 2 {
		return wasiBadF
	}
	if n > maxWASIIO {
		return wasiInval
	}
	vecs, ok := c.Read(at, 8*n)
	if !ok {
		return wasiFault
	}
	var text []byte
	written := uint32(0)
	for ; len(vecs) >= 8; vecs = vecs[8:] {
		l := binary.LittleEndian.Uint32(vecs[4:])
		b, ok := c.Read(binary.LittleEndian.Uint32(vecs), l)
		if !ok {
			return wasiFault
		}
		text = append(text, b[:min(len(b), max(0, maxWASILen-len(text)))]...)
		written += l
	}
	c.in.keepText(text)
	if now := time.Now().Unix(); c.in.logs && log != nil && c.in.printed.Swap(now) != now { // one a second
		log(c.Plugin(), string(text))
	}
	out, ok := c.Read(uint32(st[3]), 4)
	if !ok {
		return wasiFault
	}
	binary.LittleEndian.PutUint32(out, written)
	return 0
}

// wasiPoll reports every subscription as ready.
func wasiPoll(c *Call, st []uint64) uint64 {
	n := uint32(st[2])
	if n > maxWASIIO {
		return wasiInval
	}
	c.Charge(int64(n) * abi.FuelPollUnits)
	subs, ok := c.Read(uint32(st[0]), n*wasiSub)
	events, ok2 := c.Read(uint32(st[1]), n*wasiEvent)
	count, ok3 := c.Read(uint32(st[3]), 4)
	if !ok || !ok2 || !ok3 {
		return wasiFault
	}
	for i := range n {
		ev := events[i*wasiEvent : (i+1)*wasiEvent]
		clear(ev)
		copy(ev[:8], subs[i*wasiSub:]) // userdata
		ev[10] = subs[i*wasiSub+8]     // type
	}
	binary.LittleEndian.PutUint32(count, n)
	return 0
}
