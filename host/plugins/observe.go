package plugins

import (
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// ended is the outcome of one request without references.
type ended struct {
	endpoint endpoint.ID
	epoch    uint32
	status   uint32
	at       time.Time
	failed   bool

	ttft, e2e, itl                    float32 // ms
	prompt, cached, predicted, output float32 // tokens; cached is -1 where not reported
}

func millis(d time.Duration) float32 { return float32(d.Seconds() * 1e3) }

func endedOf(x *scheduler.Observation, now time.Time) ended {
	o := &x.Outcome
	e := ended{
		endpoint: x.Endpoint, epoch: x.Epoch, status: uint32(max(o.Status, 0)), at: now, failed: scheduler.Failed(o),
		ttft: millis(o.TTFT), e2e: millis(o.E2E), prompt: float32(x.PromptTokens), cached: -1,
		predicted: float32(x.PredictedCached),
	}
	if o.HasCached {
		e.cached = float32(o.CachedTokens)
	}
	if o.HasUsage {
		e.prompt, e.output = float32(o.PromptTokens), float32(o.OutputTokens)
		if x.Streamed && o.OutputTokens > 1 && o.TTFT > 0 {
			e.itl = millis(o.E2E-o.TTFT) / float32(o.OutputTokens-1)
		}
	}
	return e
}

// outcomes is a batch for observe, of one goroutine.
type outcomes struct {
	ends []ended
	out  wasm.Outcomes
	rows [endpoint.MaxEndpoints]uint32 // by slot, in the table of the batch
}

// add returns how many there are.
func (b *outcomes) add(e ended) int {
	b.ends = append(b.ends, e)
	return len(b.ends)
}

func (b *outcomes) reset() { b.ends = b.ends[:0] }

// fill writes the columns. It omits outcomes of removed endpoints, where no request
// can be placed, and returns their number.
func (b *outcomes) fill(snap *endpoint.Snapshot, now time.Time) (gone uint64) {
	o := &b.out
	o.N, o.NowMS, o.Endpoints = 0, float64(now.UnixMilli()), o.Endpoints[:0]
	for i := range snap.N {
		if info := snap.Info(endpoint.ID(i)); info != nil {
			b.rows[i] = uint32(len(o.Endpoints))
			o.Endpoints = append(o.Endpoints, abi.EndpointID(uint32(i), info.Epoch))
		}
	}
	for c := range o.Columns {
		o.Columns[c], o.U32[c] = o.Columns[c][:0], o.U32[c][:0]
	}
	for i := range b.ends {
		e := &b.ends[i]
		if !snap.Current(e.endpoint, e.epoch) {
			gone++
			continue
		}
		b.write(e, now)
		o.N++
	}
	return gone
}

func (b *outcomes) write(e *ended, now time.Time) {
	f, u := &b.out.Columns, &b.out.U32
	putU := func(c int, v uint32) { u[c] = append(u[c], v) }
	put := func(c int, v float32) { f[c] = append(f[c], v) }
	putU(abi.OutEndpointRow, b.rows[e.endpoint])
	putU(abi.OutEndpointID, abi.EndpointID(uint32(e.endpoint), e.epoch))
	putU(abi.OutStatus, e.status)
	put(abi.OutTTFTMS, e.ttft)
	put(abi.OutE2eMS, e.e2e)
	put(abi.OutITLMS, e.itl)
	put(abi.OutPromptTokens, e.prompt)
	put(abi.OutCachedTokens, e.cached)
	put(abi.OutPredictedTokens, e.predicted)
	put(abi.OutOutputTokens, e.output)
	put(abi.OutAgeMS, millis(max(0, now.Sub(e.at))))
	failed := float32(0)
	if e.failed {
		failed = 1
	}
	put(abi.OutFailed, failed)
}

// configuredObservers loads the configured plugins that observe. It is called before
// the profiles are planned, so that the columns that another plugin publishes exist. A
// plugin observes once, even if it scores with several configs: with its own, or that
// of the first scorer that sets one.
//
// Loaded plugins that do not observe are appended to spare.
func (pl *plan) configuredObservers() error {
	var again []*config.Plugin // they may read columns that a later one publishes
	for i := range pl.cfg.Plugins {
		c := &pl.cfg.Plugins[i]
		if pl.configuredObserver(c, true) != nil {
			again = append(again, c)
		}
	}
	for _, c := range again {
		if err := pl.configuredObserver(c, false); err != nil {
			return err
		}
	}
	return nil
}

func (pl *plan) configuredObserver(c *config.Plugin, strict bool) error {
	cfg := scorerConfig(pl.cfg, c.Name)
	for m := range pl.modules(c) {
		if k := keyOf(c, m.digest, cfg); pl.prev != nil && pl.prev.nonObservers[k] {
			pl.nonObservers[k] = true
			return nil
		}
		break
	}
	p, _, err := pl.load(c, cfg, strict, func(*plugin) error { return nil })
	if err != nil || p == nil {
		return err
	}
	if !p.Has(wasm.Observe) {
		pl.nonObservers[p.key] = true
		pl.spare = append(pl.spare, p)
		return nil
	}
	pl.plugins, pl.observers = append(pl.plugins, p), append(pl.observers, p)
	return nil
}

// addObservers lets the plugins that only profiles name observe too, one of a
// name.
func (s *Set) addObservers() {
	for _, p := range s.plugins {
		same := func(o *plugin) bool { return o.key.name == p.key.name }
		if p.Has(wasm.Observe) && !slices.ContainsFunc(s.observers, same) {
			s.observers = append(s.observers, p)
		}
	}
}

// scorerConfig returns the config of the first scorer that gives a plugin one.
func scorerConfig(c *config.Config, name string) config.JSON {
	for i := range c.Profiles {
		for _, s := range c.Profiles[i].Scorers {
			if s.Plugin == name && s.Config != "" {
				return s.Config
			}
		}
	}
	return ""
}
