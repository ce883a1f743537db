package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// adapter implements the extensions of the scheduler by a plugin. It is immutable and
// safe for concurrent use.
type adapter struct {
	p         *plugin
	objective uint64
	profile   uint64
	models    map[string]uint64 // numbers, by name
	loras     map[string]uint64 // numbers of what may be LoRA adapters, by the engines' name
	reads     reading
	reasons   []string  // of the filter, with the plugin's name
	note      string    // scheduler.PluginUse.Note
	views     sync.Pool // *views
}

// views is a decision's batch as the plugin gets it: its columns are those of
// the scheduler's batch.
type views struct {
	b     wasm.Batch
	infos []*endpoint.Info
	ids   []uint32
	order wasm.Order
	count [1]uint32

	adapters []uint32
}

var objectiveNumbers = map[string]uint64{"blend": abi.ObjectiveBlend, "ttft": abi.ObjectiveTTFT,
	"throughput": abi.ObjectiveThroughput}

func newAdapter(p *plugin, cfg *config.Config, profile int, objective string) *adapter {
	a := &adapter{p: p, objective: objectiveNumbers[objective], profile: uint64(profile), models: map[string]uint64{},
		loras: map[string]uint64{}, reads: readingOf(p.Manifest())}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		a.models[m.Name] = uint64(i)
		for _, p := range m.Pools {
			if _, there := a.loras[p.ServedAs]; !there {
				a.loras[p.ServedAs] = uint64(i) + 1
			}
		}
	}
	if f := p.Manifest().Roles[wasm.Filter]; f != nil {
		for _, r := range f.Reasons {
			a.reasons = append(a.reasons, p.key.name+": "+r)
		}
	}
	return a
}

// Name is the configured name, which need not be the manifest's.
func (a *adapter) Name() string { return a.p.key.name }

// Wants implements scheduler.Wanter.
func (a *adapter) Wants() scheduler.ColumnSet { return a.reads.want }

// Digest implements scheduler.Digester.
func (a *adapter) Digest() string { return a.p.Digest() }

// Note implements scheduler.Noter.
func (a *adapter) Note() string { return a.note }

// view shows b. The caller gives it back to a.views.
func (a *adapter) view(b *scheduler.Batch) *views {
	v, _ := a.views.Get().(*views)
	if v == nil {
		v = new(views)
		if a.reads.labels {
			v.b.Labels = v
		}
	}
	w := &v.b
	w.N, w.NSlots = b.N, 1
	w.PromptTokens, w.MaxTokens, w.SessionHash, w.Seed, w.NowMS, w.Priority = b.PromptTokens, b.MaxTokens, b.Session,
		b.Seed, b.NowMS, b.Priority
	r := &w.Request
	r[abi.ReqAdapterID], r[abi.ReqCapacityState] = 0, 0
	if b.Adapter != "" {
		r[abi.ReqAdapterID] = a.loras[b.Adapter]
	}
	if b.Capped {
		r[abi.ReqCapacityState] = 1
	}
	r[abi.ReqModelID], r[abi.ReqProfile], r[abi.ReqObjective] = a.models[b.Model], a.profile, a.objective
	r[abi.ReqOperation], r[abi.ReqTenantHash], r[abi.ReqSizeClass] = b.Op.ABI(), b.Tenant, sizeClass(b.BodyBytes)
	v.show(&a.reads, b)
	return v
}

// done returns a view to the pool without its references.
func (a *adapter) done(v *views) {
	v.b.Columns = [abi.NumColumns][]float32{}
	v.infos, v.order = nil, wasm.Order{}
	a.views.Put(v)
}

// Label implements wasm.LabelSource.
func (v *views) Label(key, value string, dst []float32) {
	for i, info := range v.infos {
		dst[i] = 0
		if info.Labels[key] == value {
			dst[i] = 1
		}
	}
}

// sizeClass is the base-2 logarithm of a body's bytes, rounded up.
func sizeClass(bytes int) uint64 { return uint64(bits.Len(uint(max(bytes, 1) - 1))) }

// schedulerError turns the error of a plugin into an error of the scheduler that an
// operator understands.
func (a *adapter) schedulerError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wasm.ErrAbstain):
		return scheduler.ErrAbstain
	case errors.Is(err, wasm.ErrQuarantined):
		return fmt.Errorf("quarantined: %s", a.p.Quarantine())
	}
	return err
}

// scorer is a plugin with the role score.
type scorer struct{ *adapter }

// Unit implements scheduler.Scorer.
func (s scorer) Unit() scheduler.Unit {
	if s.p.Manifest().Roles[wasm.Score].Unit == abi.UnitCostTokens {
		return scheduler.CostTokens
	}
	return scheduler.UnitScore
}

// Score implements scheduler.Scorer.
func (s scorer) Score(b *scheduler.Batch) error {
	v := s.view(b)
	defer s.done(v)
	return s.schedulerError(s.p.Score(&v.b, b.Scores, nil))
}

// Explain implements scheduler.Explained, on an instance of its own: what an
// operator asks puts no plugin into quarantine.
func (s scorer) Explain(b *scheduler.Batch) (names []string, terms []float32, err error) {
	t, err := s.p.NewTracer(context.Background())
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	v := s.view(b)
	defer s.done(v)
	v.b.Flags = abi.FlagExplain
	defer func() { v.b.Flags = 0 }()
	tr, err := t.Call(wasm.Score, &v.b, false)
	if err != nil {
		return nil, nil, err
	}
	for i, x := range tr.Result[:b.N] {
		b.Scores[i] = math.Float32frombits(x)
	}
	names = s.p.Manifest().Roles[wasm.Score].Terms
	for _, x := range tr.Terms {
		terms = append(terms, math.Float32frombits(x))
	}
	return names[:len(terms)/max(b.N, 1)], terms, nil
}

// filter is a plugin with the role filter.
type filter struct{ *adapter }

// Reasons implements scheduler.Filter.
func (f filter) Reasons() []string { return f.reasons }

// Filter implements scheduler.Filter.
func (f filter) Filter(b *scheduler.Batch, drop []uint32) error {
	v := f.view(b)
	defer f.done(v)
	return f.schedulerError(f.p.Filter(&v.b, drop))
}

// picker is a plugin with the role pick.
type picker struct{ *adapter }

// Pick implements scheduler.Picker.
func (p picker) Pick(b *scheduler.Batch, mask, order []uint32) (int, error) {
	v := p.view(b)
	defer p.done(v)
	v.order = wasm.Order{Scores: b.Scores, Mask: mask, K: len(order), Count: v.count[:], Index: order}
	if err := p.p.Pick(&v.b, &v.order); err != nil {
		return 0, p.schedulerError(err)
	}
	return int(v.count[0]), nil
}
