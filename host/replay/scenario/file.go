package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// File is a scenario file.
type File struct {
	Name     string    `yaml:"name"`
	About    string    `yaml:"about"` // one sentence, for reports
	Trace    Recording `yaml:"trace"`
	Generate Generator `yaml:"generate"`
	Engines  []Group   `yaml:"engines"`
	Foreign  []Others  `yaml:"foreign"`
	Slow     []Slow    `yaml:"slow"`
	SLO      SLO       `yaml:"slo"`
}

// Recording is a recorded trace and how it is used.
type Recording struct {
	File          string          `yaml:"file"`          // below the folder of traces, or a path
	Format        string          `yaml:"format"`        // azure, decisions, mooncake, openai or weka; default by the name
	Tokenizer     string          `yaml:"tokenizer"`     // folder with the model's tokenizer files, for openai
	Speed         float64         `yaml:"speed"`         // how many times as fast as recorded; default 1
	Rate          float64         `yaml:"rate"`          // conversations a second, at random times; default as recorded
	Skip          int             `yaml:"skip"`          // conversations
	Conversations int             `yaml:"conversations"` // at most; default all
	MaxContext    int             `yaml:"max_context"`   // tokens; a conversation ends before a longer prompt
	MaxThink      config.Duration `yaml:"max_think"`     // longest pause of a client; default as recorded
}

// Group is engines of one kind.
type Group struct {
	Count  int     `yaml:"count"`  // engines
	Preset string  `yaml:"preset"` // 8b-a100, 8b-h100 or 70b-4xh100
	Cache  float64 `yaml:"cache"`  // KV memory beside the preset's; default 1
	Speed  float64 `yaml:"speed"`  // beside the preset's; default 1
	Decode float64 `yaml:"decode"` // decode steps take so many times as long; default 1
}

// Others are requests that do not come through the router, at random times.
type Others struct {
	Engine int             `yaml:"engine"` // from 1
	Rate   float64         `yaml:"rate"`   // requests a second
	Prompt int             `yaml:"prompt"` // tokens, mean; half to one and a half times as many
	Output int             `yaml:"output"` // likewise
	From   config.Duration `yaml:"from"`
	To     config.Duration `yaml:"to"`
}

// Slow is an engine whose decode steps take longer from a time on.
type Slow struct {
	Engine int             `yaml:"engine"` // from 1
	At     config.Duration `yaml:"at"`
	Decode float64         `yaml:"decode"` // times as long
}

// SLO bounds a good request.
type SLO struct {
	TTFT config.Duration `yaml:"ttft"` // default 2s
	TPOT config.Duration `yaml:"tpot"` // mean time between output tokens; default 50ms
}

// Read reads a scenario file. Errors have file and line.
func Read(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	f := &File{}
	if err := config.Decode(path, data, f, f.check); err != nil {
		return nil, err
	}
	f.defaults(path)
	return f, nil
}

// Check fills the defaults of a scenario that is not from a file and reports what is
// wrong with it.
func (f *File) Check() error {
	var errs []error
	f.check(func(path, text string) {
		if path != "" {
			text = path + ": " + text
		}
		errs = append(errs, errors.New(text))
	})
	f.defaults("")
	return errors.Join(errs...)
}

func (f *File) defaults(path string) {
	if f.Name == "" {
		f.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if f.SLO.TTFT == 0 {
		f.SLO.TTFT = config.Duration(2 * time.Second)
	}
	if f.SLO.TPOT == 0 {
		f.SLO.TPOT = config.Duration(50 * time.Millisecond)
	}
}

// check reports what is wrong with the values.
func (f *File) check(report func(path, text string)) {
	bad := func(wrong bool, path, format string, args ...any) {
		if wrong {
			report(path, fmt.Sprintf(format, args...))
		}
	}
	bad(f.Trace.File == "" && f.Generate.Kind == "", "", "want trace with a file, generate with a kind, or both")
	if f.Trace.Format != "" {
		_, ok := formats[f.Trace.Format]
		bad(!ok, "trace.format", "want one of %s, got %q", strings.Join(Formats(), ", "), f.Trace.Format)
	}
	bad(f.Trace.Speed < 0 || f.Trace.Rate < 0, "trace", "speed and rate cannot be negative")
	bad(len(f.Engines) == 0, "", `missing required key "engines"`)
	n := 0
	for i := range f.Engines {
		g, path := &f.Engines[i], fmt.Sprintf("engines[%d]", i)
		_, _, err := simengine.Preset(g.Preset)
		bad(err != nil, path+".preset", "unknown preset %q: want 8b-a100, 8b-h100 or 70b-4xh100", g.Preset)
		bad(g.Count < 1, path+".count", "want at least 1 engine, got %d", g.Count)
		bad(g.Cache < 0 || g.Speed < 0 || g.Decode < 0, path, "cache, speed and decode cannot be negative")
		n += g.Count
	}
	bad(n > maxEngines, "engines", "%d engines: at most %d", n, maxEngines)
	for i := range f.Foreign {
		o, path := &f.Foreign[i], fmt.Sprintf("foreign[%d]", i)
		bad(o.Engine < 1 || o.Engine > n, path+".engine", "want 1 to %d, got %d", n, o.Engine)
		bad(o.Prompt < 1 || o.Output < 1 || o.Rate <= 0 || o.To <= o.From, path,
			"want rate, prompt and output above 0, and to after from")
		bad(o.Rate*time.Duration(o.To-o.From).Seconds() > maxForeign, path, "more than %d requests", maxForeign)
	}
	for i := range f.Slow {
		s, path := &f.Slow[i], fmt.Sprintf("slow[%d]", i)
		bad(s.Engine < 1 || s.Engine > n, path+".engine", "want 1 to %d, got %d", n, s.Engine)
		bad(s.Decode <= 0, path+".decode", "want a number above 0")
	}
	f.Generate.check(bad)
}

// Bounds of a scenario: they keep memory within a gigabyte.
const (
	maxEngines = 256
	maxForeign = 1_000_000
)

// engines returns the engines with blocks of n tokens.
func (f *File) engines(n int) ([]virtual.Engine, error) {
	var out []virtual.Engine
	for i := range f.Engines {
		g := &f.Engines[i]
		e, err := g.engine(n)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", f.Name, err)
		}
		for range g.Count {
			one := e
			one.Name = fmt.Sprintf("%s-%d", g.Preset, len(out)+1)
			out = append(out, one)
		}
	}
	return out, nil
}

func (g *Group) engine(block int) (virtual.Engine, error) {
	e, err := virtual.Preset(g.Preset, block)
	if err != nil {
		return e, err
	}
	cache, speed, decode := orOne(g.Cache), orOne(g.Speed), orOne(g.Decode)
	e.CacheTokens = int(cache * float64(e.CacheTokens))
	e.Timing = virtual.Slowed(e.Timing, decode)
	t := &e.Timing
	for _, v := range []*float64{&t.C0, &t.Tw, &t.A, &t.B, &t.Q} {
		*v /= speed
	}
	return e, nil
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

// foreign returns the requests of others for a seed.
func (f *File) foreign(seed uint64) (out []virtual.Foreign) {
	r := rand.New(rand.NewPCG(seed, 17))
	for i := range f.Foreign {
		o := &f.Foreign[i]
		for at := time.Duration(o.From).Seconds(); ; {
			at += r.ExpFloat64() / o.Rate
			if at >= time.Duration(o.To).Seconds() {
				break
			}
			vary := func(n int) int { return max(1, n/2+r.IntN(n+1)) }
			out = append(out, virtual.Foreign{At: time.Duration(at * float64(time.Second)), Engine: o.Engine - 1,
				Prompt: vary(o.Prompt), Output: vary(o.Output)})
		}
	}
	return out
}

// changes returns what happens to engines during a run.
func (f *File) changes(engines []virtual.Engine) (out []virtual.Change) {
	for i := range f.Slow {
		s := &f.Slow[i]
		out = append(out, virtual.Change{At: time.Duration(s.At), Engine: s.Engine - 1,
			Timing: virtual.Slowed(engines[s.Engine-1].Timing, s.Decode)})
	}
	return out
}

// Workload is the workload of a scenario.
type Workload struct {
	file     *File
	recorded *replay.Trace // nil: it is generated
}

// Open reads the recorded trace of the scenario, from the folder of traces unless its
// name is a path. If it is not there, the scenario's generator takes its place; without
// one the error wraps [fs.ErrNotExist].
func (f *File) Open(s *Sources) (*Workload, error) {
	w := &Workload{file: f}
	if f.Trace.File == "" {
		return w, nil
	}
	path := f.Trace.File
	if !strings.ContainsRune(path, filepath.Separator) {
		path = filepath.Join(s.Traces, path)
	}
	t, err := f.Trace.open(path, s)
	switch {
	case err == nil:
		w.recorded = t
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("scenario %s: %w", f.Name, err)
	case f.Generate.Kind == "":
		return nil, fmt.Errorf("scenario %s: %w: give the folder of traces", f.Name, err)
	}
	return w, nil
}

// Recorded reports whether the workload is a recording.
func (w *Workload) Recorded() bool { return w.recorded != nil }

// Trace returns the workload of a seed, times load as fast.
func (w *Workload) Trace(seed uint64, load float64) *replay.Trace {
	if w.recorded == nil {
		return scale(w.file.Generate.trace(seed), load*orOne(w.file.Generate.Speed))
	}
	t := w.recorded.Spread(seed)
	if rate := w.file.Trace.Rate; rate > 0 {
		t.Poisson(rate, seed)
	}
	return scale(t, load*orOne(w.file.Trace.Speed))
}

// scale lets the conversations of t begin faster. It changes t.
func scale(t *replay.Trace, speed float64) *replay.Trace {
	for i := range t.Conversations {
		t.Conversations[i].Start /= speed
	}
	return t
}
