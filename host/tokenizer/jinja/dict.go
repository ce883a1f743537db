package jinja

import (
	"strconv"
	"sync"
)

// Dict is a mapping in insertion order. One goroutine fills it. Once it is part
// of a value that is rendered it is read-only, and then it is safe for concurrent
// use.
type Dict struct {
	Keys []string
	Vals []Value

	index map[string]int // index into Keys, if there are many keys
	ints  bool           // the keys are integers (dict literals only)

	// A frozen Dict came from a request and is shared by renders. It caches its
	// JSON.
	frozen bool
	meter  *Meter
	mu     sync.Mutex
	json   map[string]Value // by options; guarded by mu
}

// Bounds and sizes of a Dict.
const (
	dictIndexMin = 12  // number of keys from which an index is worthwhile
	maxDictJSON  = 4   // cached JSON texts
	dictBytes    = 144 // size of a Dict without its keys and values
	slotBytes    = 64  // size of a key's header and a Value
)

// NewDict returns an empty mapping with room for n keys. It caches its JSON
// after the first use. m counts its memory and may be nil.
func NewDict(n int, m *Meter) *Dict {
	m.add(dictBytes + n*slotBytes)
	return &Dict{Keys: make([]string, 0, n), Vals: make([]Value, 0, n), frozen: true, meter: m}
}

// Value returns d as a value.
func (d *Dict) Value() Value { return Value{k: kindDict, p: d} }

func (d *Dict) find(k string) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i := range d.Keys {
		if d.Keys[i] == k {
			return i
		}
	}
	return -1
}

// Get returns the value of k and whether it is present; a nil Dict is empty.
func (d *Dict) Get(k string) (Value, bool) {
	if d == nil {
		return Undefined, false
	}
	if i := d.find(k); i >= 0 {
		return d.Vals[i], true
	}
	return undefined, false
}

// Set sets key k to v. An existing key keeps its position.
func (d *Dict) Set(k string, v Value) {
	if i := d.find(k); i >= 0 {
		d.Vals[i] = v
		return
	}
	if len(d.Keys) == cap(d.Keys) {
		d.meter.add((len(d.Keys) + 1) * slotBytes)
	}
	d.Keys = append(d.Keys, k)
	d.Vals = append(d.Vals, v)
	if d.index != nil {
		d.index[k] = len(d.Keys) - 1
		d.meter.add(entryBytes)
	} else if len(d.Keys) > dictIndexMin {
		d.index = make(map[string]int, 2*len(d.Keys))
		for i, k := range d.Keys {
			d.index[k] = i
		}
		d.meter.add(2 * len(d.Keys) * entryBytes)
	}
}

// key returns the i-th key as a template value.
func (d *Dict) key(i int) Value {
	if d.ints {
		n, _ := strconv.ParseInt(d.Keys[i], 10, 64)
		return Int(n)
	}
	return Str(d.Keys[i])
}

// pairs returns the (key, value) tuples.
func (r *run) pairs(d *Dict) []Value {
	r.chargeValues(4 * len(d.Keys))
	items := make([]Value, len(d.Keys))
	for i := range d.Keys {
		items[i] = tuple(d.key(i), d.Vals[i])
	}
	return items
}
