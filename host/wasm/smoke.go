package wasm

import (
	"errors"

	"github.com/kvasir-router/kvasir/abi"
)

// smokeSizes are the sizes of the batches that every plugin must score to be loaded.
var smokeSizes = [...]int{0, 1, 5, 16, 64, 256}

// SmokeBatch returns a batch of n candidates with plausible values in every
// column, the same for the same seed.
func SmokeBatch(n int, seed uint64) *Batch {
	s := seed
	next := func() float32 { return float32(splitmix(&s)>>40) / (1 << 24) } // [0, 1)
	b := &Batch{
		N: n, PromptTokens: 1000 + uint32(splitmix(&s)%8000), MaxTokens: 256, Priority: 0,
		NowMS: 1.7e12, SessionHash: splitmix(&s), Seed: splitmix(&s), NSlots: 1,
		EndpointIDs: make([]uint32, n), AdapterStates: make([]uint32, n),
	}
	prompt := float32(b.PromptTokens)
	for k := range b.Columns {
		col := make([]float32, n)
		for i := range col {
			x := next()
			switch abi.Columns[k].Unit {
			case "tokens":
				x = float32(int(x * prompt))
			case "requests":
				x = float32(int(x * 32))
			case "ms":
				x *= 500
			case "tokens/s":
				x *= 20_000
			case "flag":
				x = float32(int(x * 2))
			}
			col[i] = x
		}
		b.Columns[k] = col
	}
	for i := range n {
		b.EndpointIDs[i] = abi.EndpointID(uint32(i), 1)
		b.AdapterStates[i] = uint32(i % 4)
		b.Columns[abi.ColUncachedTokens][i] = max(1, b.Columns[abi.ColUncachedTokens][i])
		b.Columns[abi.ColSpeed][i] = 0.5 + b.Columns[abi.ColSpeed][i]
	}
	b.Request[abi.ReqTenantHash] = splitmix(&s)
	return b
}

// calibrate sets the budgets from the fuel that the smoke batches use and returns the
// highest number of units per candidate. Only loading may call it, because calls read
// the budgets.
func (p *Plugin) calibrate(in *instance) (float64, error) {
	most := 0.0
	for r := Filter; r <= Pick; r++ {
		if !p.Has(r) {
			continue
		}
		p.budgets[r] = budget{floor: p.hot.start()}
		var m measurement
		if err := p.smokeRole(in, r, &m); err != nil {
			return 0, err
		}
		p.budgets[r].measure(&m, p.hot)
		most = max(most, p.budgets[r].per)
	}
	return most, nil
}

// smoke calls every hot role with the smoke batches and the budgets there are.
func (p *Plugin) smoke(in *instance) error {
	for r := Filter; r <= Pick; r++ {
		if !p.Has(r) {
			continue
		}
		if err := p.smokeRole(in, r, new(measurement)); err != nil {
			return err
		}
	}
	return nil
}

// smokeRole calls one role with every smoke batch and records the fuel used.
func (p *Plugin) smokeRole(in *instance, r Role, m *measurement) error {
	for i, size := range smokeSizes {
		b := SmokeBatch(size, uint64(i))
		err := p.once(in, r, b)
		if err != nil && !errors.Is(err, ErrAbstain) {
			if f, ok := errors.AsType[*Fault](err); ok {
				f.Role = r.String()
			}
			return err
		}
		m.n, m.units, m.took = append(m.n, size), append(m.units, in.used()), append(m.took, in.took)
	}
	return nil
}

// once calls a hot role on one instance, without pool and breaker.
func (p *Plugin) once(in *instance, r Role, b *Batch) error {
	switch r {
	case Filter:
		return p.filter(in, p.specs[r], b, make([]uint32, b.N))
	case Score:
		return p.score(in, p.specs[r], b, make([]float32, b.N), nil)
	default:
		o := SmokeOrder(b)
		return p.pick(in, p.specs[r], b, o)
	}
}

// SmokeOrder returns what Pick is asked in a smoke call: scores that fall with
// the candidate's number, every candidate allowed, three places.
func SmokeOrder(b *Batch) *Order {
	slots := max(int(b.NSlots), 1)
	o := &Order{K: min(3, b.N), Scores: make([]float32, slots*b.N), Mask: make([]uint32, slots*b.N),
		Count: make([]uint32, slots)}
	o.Index = make([]uint32, slots*o.K)
	for i := range o.Scores {
		o.Scores[i], o.Mask[i] = -float32(i%max(b.N, 1)), 1
	}
	return o
}
