package plugins

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// scoring is a plugin's place among the scorers of a profile. It is immutable.
type scoring struct {
	key       pluginKey
	cfg       *config.Config
	profile   int
	objective string
}

// shadow is a candidate that scores beside the active plugin of its name,
// behind the placements.
type shadow struct {
	name, digest string
	signer       string // trusted keys that signed it
	since        time.Time
	skipped      atomic.Uint64 // decisions there was no room for, or by a config that came later
	compared     wasm.Shadow

	mu       sync.Mutex         // guards the fields below
	plugins  map[string]*plugin // by config; nil = ended
	adapters map[*scoring]*adapter
}

// maxAdapters bounds the adapters a shadow keeps: those of rules that are no
// longer in force go when they are more. Profiles × scorers is far less.
const maxAdapters = 256

// score compares one decision.
func (s *shadow) score(j *shadowJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plugins[j.place.key.config]
	if p == nil { // ended, or a config that it was not loaded with
		s.skipped.Add(1)
		return
	}
	a := s.adapters[j.place]
	if a == nil {
		if len(s.adapters) >= maxAdapters {
			clear(s.adapters)
		}
		a = newAdapter(p, j.place.cfg, j.place.profile, j.place.objective)
		s.adapters[j.place] = a
	}
	v := a.view(&j.b)
	defer a.done(v)
	j.scratch = slices.Grow(j.scratch[:0], j.b.N)[:j.b.N]
	_ = s.compared.Add(p.Plugin, &v.b, j.b.Scores, j.scratch) // counted there
}

// wants returns the columns that a shadow reads.
func (s *shadow) wants() (want scheduler.ColumnSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plugins {
		want |= readingOf(p.Manifest()).want
	}
	return want
}

func (s *shadow) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plugins {
		p.Close()
	}
	s.plugins, s.adapters = nil, nil
}

// shadowJob is a decision on its way to a shadow.
type shadowJob struct {
	shadow  *shadow
	place   *scoring
	b       scheduler.Batch
	scratch []float32
}

// shadowJobs is how many decisions may wait. A decision over 1,024 endpoints is
// 70 KB; decisions beyond that are skipped, which does not bias the comparison.
const shadowJobs = 32

// shadows are the candidates under comparison, one of a name. offer may be
// called concurrently with all else.
type shadows struct {
	active atomic.Pointer[map[string]*shadow] // nil = none; replaced, never changed
	reads  atomic.Uint64                      // columns that they read
	mu     sync.Mutex                         // held through a replacement of active
	free   chan *shadowJob
	jobs   chan *shadowJob // has room for every job
}

func (s *shadows) init() {
	s.free, s.jobs = make(chan *shadowJob, shadowJobs), make(chan *shadowJob, shadowJobs)
	for range shadowJobs {
		s.free <- new(shadowJob)
	}
}

// offer takes a copy of a decision for each of its scorers that has a shadow;
// places is by scorer, nil = it is no plugin. It does not block.
func (s *shadows) offer(places []*scoring, b *scheduler.Batch, parts [][]float32) {
	active := s.active.Load()
	if active == nil {
		return
	}
	for k, place := range places {
		if place == nil {
			continue
		}
		sh := (*active)[place.key.name]
		if sh == nil || parts[k] == nil {
			continue
		}
		select {
		case j := <-s.free:
			j.shadow, j.place = sh, place
			b.CopyTo(&j.b)
			copy(j.b.Scores, parts[k])
			s.jobs <- j
		default:
			sh.skipped.Add(1)
		}
	}
}

// score compares the decision of j and frees j.
func (s *shadows) score(j *shadowJob) {
	j.shadow.score(j)
	clear(j.b.Infos)
	j.shadow, j.place = nil, nil
	s.free <- j
}

// wants returns the columns that the shadows read.
func (s *shadows) wants() scheduler.ColumnSet { return scheduler.ColumnSet(s.reads.Load()) }

func (s *shadows) of(name string) *shadow {
	if active := s.active.Load(); active != nil {
		return (*active)[name]
	}
	return nil
}

// set makes sh, nil = none, the shadow of a name and ends the one before,
// which it returns.
func (s *shadows) set(name string, sh *shadow) (before *shadow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*shadow{}
	if active := s.active.Load(); active != nil {
		for n, x := range *active {
			all[n] = x
		}
	}
	before = all[name]
	delete(all, name)
	if sh != nil {
		all[name] = sh
	}
	want := scheduler.ColumnSet(0)
	for _, x := range all {
		want |= x.wants()
	}
	s.reads.Store(uint64(want)) // before active: what is offered has its columns
	s.active.Store(&all)
	if len(all) == 0 {
		s.active.Store(nil)
	}
	if before != nil {
		before.close()
	}
	return before
}

// list returns the shadows by name.
func (s *shadows) list() (out []*shadow) {
	if active := s.active.Load(); active != nil {
		for _, sh := range *active {
			out = append(out, sh)
		}
	}
	slices.SortFunc(out, func(a, b *shadow) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

func (s *shadows) close() {
	for _, sh := range s.list() {
		s.set(sh.name, nil)
	}
}

// status returns nil of a nil shadow.
func (s *shadow) status() *admin.Shadow {
	if s == nil {
		return nil
	}
	c := s.compared.Stats()
	st := &admin.Shadow{Digest: s.digest, Signer: s.signer, Since: s.since, Decisions: c.Decisions,
		RankAgreement: c.Agreement,
		Elsewhere:     float64(c.Elsewhere) / float64(max(c.Decisions, 1)), Abstained: c.Abstained, Faults: c.Failed,
		Skipped: s.skipped.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.plugins {
		if q := p.Quarantine(); q != "" {
			st.Quarantine = q
		}
	}
	return st
}

func (s *shadows) collect(e *telemetry.Emitter) {
	for _, sh := range s.list() {
		c, labels := sh.compared.Stats(), []string{sh.name, sh.digest}
		e.Emit(metric.ShadowDecisions, float64(c.Decisions), labels...)
		e.Emit(metric.ShadowElsewhere, float64(c.Elsewhere), labels...)
		e.Emit(metric.ShadowRankAgreement, c.Agreement, labels...)
		e.Emit(metric.ShadowAbstained, float64(c.Abstained), labels...)
		e.Emit(metric.ShadowFaults, float64(c.Failed), labels...)
		e.Emit(metric.ShadowSkipped, float64(sh.skipped.Load()), labels...)
	}
}

// newShadow loads a module as the scorers of its name are loaded by the rules
// in force.
func (m *Manager) newShadow(ctx context.Context, name string, code []byte) (_ *shadow, err error) {
	set, _, release := m.rules.Current()
	release() // of the set only memory is used
	c := declared(set.cfg, name)
	signer, err := signerOf(set.cfg, fromStore, code)
	if err != nil {
		return nil, err
	}
	sh := &shadow{name: name, signer: signer, since: m.now(), plugins: map[string]*plugin{},
		adapters: map[*scoring]*adapter{}}
	defer func() {
		if err != nil {
			sh.close()
		}
	}()
	for _, s := range set.scored {
		if s.key.name != name || sh.plugins[s.key.config] != nil {
			continue
		}
		k := keyOf(&c, moduleOf(fromStore, code, nil).digest, config.JSON(s.key.config))
		trial := trialOptions{check: len(sh.plugins) == 0, most: trialTime(set.cfg)}
		opt := trial.add(k.options())
		opt.Instances = 1
		p, err := m.table.runtime.Load(ctx, code, opt)
		if err != nil {
			return nil, withConfigKey(set.cfg, k, err)
		}
		sh.digest = p.Digest()
		sh.plugins[s.key.config] = &plugin{Plugin: p, key: k, source: fromStore, since: sh.since}
		if !p.Has(wasm.Score) {
			return nil, fmt.Errorf("plugin %s: its manifest has no role %v, which a shadow needs", name, wasm.Score)
		}
	}
	if len(sh.plugins) == 0 {
		return nil, fmt.Errorf("plugin %s: no profile uses it as a scorer, so there is nothing to compare with", name)
	}
	return sh, nil
}

// tryShadow is newShadow within the bounds of a pusher's trials.
func (m *Manager) tryShadow(ctx context.Context, name, who string, code []byte) (*shadow, error) {
	end, err := m.trials.begin(who)
	if err != nil {
		return nil, err
	}
	defer end()
	set, _, release := m.rules.Current()
	most := trialTime(set.cfg)
	release()
	ctx, cancel := context.WithTimeout(ctx, (1+waitTrial)*most)
	defer cancel()
	return m.newShadow(ctx, name, code)
}

// Shadow implements admin.Plugins.
func (m *Manager) Shadow(ctx context.Context, name string, code []byte, who string) (*admin.PluginChange, error) {
	if !plugstore.ValidName(name) {
		return nil, errPluginName(name)
	}
	sh, err := m.tryShadow(ctx, name, who, code)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	m.change.Lock()
	defer m.change.Unlock()
	digest, err := m.store.Put(name, code, who)
	if err != nil {
		sh.close()
		return nil, fmt.Errorf("%w: %v", admin.ErrRefused, err)
	}
	m.offPath.shadows.set(name, sh)
	m.log.Info("shadow started", "plugin", name, "digest", digest, "signer", sh.signer)
	return &admin.PluginChange{Name: name, Digest: digest, Shadow: true, Signer: sh.signer}, nil
}

// EndShadow implements admin.Plugins.
func (m *Manager) EndShadow(_ context.Context, name string) (*admin.PluginChange, error) {
	sh := m.offPath.shadows.set(name, nil)
	if sh == nil {
		return nil, fmt.Errorf("%w: plugin %.128q has no shadow", admin.ErrNotFound, name)
	}
	m.log.Info("shadow ended", "plugin", name, "digest", sh.digest)
	return &admin.PluginChange{Name: name, Digest: sh.digest}, nil
}
