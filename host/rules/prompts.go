package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/hf"
)

// Prompts turns request bodies into block hashes, by one tokenizer directory.
type Prompts struct {
	key      config.Tokenizer
	identity string // digest of the files; the cache identity of its models
	chat     *chat.Model
}

// Chat returns the model of the directory's prompts.
func (p *Prompts) Chat() *chat.Model { return p.chat }

// loadPrompts opens a tokenizer directory. It takes over the Prompts of an unchanged
// one, with its warm cache.
func (m *Manager) loadPrompts(t *config.Tokenizer, r *Revision, in planInput) (*Prompts, error) {
	for _, p := range r.Prompts {
		if p.key == *t {
			return p, nil
		}
	}
	if in.carries() {
		for _, p := range in.base.Prompts {
			if p.key == *t {
				r.Prompts = append(r.Prompts, p)
				return p, nil
			}
		}
	}
	dir := os.DirFS(t.Dir)
	id, err := chat.Identity(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", t.Dir, err)
	}
	if t.Digest != "" && t.Digest != id {
		return nil, fmt.Errorf("tokenizer %s: digest %s, want %s", t.Dir, id, t.Digest)
	}
	if in.base != nil {
		for _, p := range in.base.Prompts {
			if p.key == *t && p.identity == id {
				r.Prompts = append(r.Prompts, p)
				return p, nil
			}
		}
	}
	p, err := OpenPrompts(t, int64(m.opt.Boot.Limits.Prompts))
	if err != nil {
		return nil, err
	}
	r.Prompts = append(r.Prompts, p)
	return p, nil
}

// OpenPrompts opens a tokenizer directory with the library of t: auto uses bpe, or hf
// for tokenizers that bpe does not support. budget bounds its cache, in bytes.
func OpenPrompts(t *config.Tokenizer, budget int64) (*Prompts, error) {
	enc, err := Encoder(t)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(t.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: time_zone: %w", err)
	}
	cfg := chat.Config{Files: os.DirFS(t.Dir), Encoder: enc, TimeZone: zone, BudgetBytes: budget}
	if cfg.CacheIdentity, err = chat.Identity(cfg.Files); err != nil {
		return nil, err
	}
	if t.TemplateFile != "" {
		b, err := os.ReadFile(t.TemplateFile)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: template_file: %w", err)
		}
		cfg.Template = string(b)
	}
	m, err := chat.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", t.Dir, err)
	}
	return &Prompts{key: *t, identity: cfg.CacheIdentity, chat: m}, nil
}

// Encoder opens the tokenizer of a directory with the library that t asks for.
func Encoder(t *config.Tokenizer) (tokenizer.Encoder, error) {
	if t.Library != "hf" {
		b, err := bpe.Load(t.Dir)
		if err == nil {
			return b, nil
		}
		if _, unknown := errors.AsType[*bpe.UnsupportedError](err); !unknown || t.Library == "bpe" {
			return nil, err
		}
		f, hfErr := hf.Load(t.Dir)
		if hfErr == nil {
			return f, nil
		}
		return nil, fmt.Errorf("%w; and %v", err, hfErr)
	}
	f, err := hf.Load(t.Dir)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// cacheIdentity returns the seed of the block hashes of a pool's endpoints: the
// identity of its models' tokenizer; config checks that they share one.
func (r *Revision) cacheIdentity(pool string) string {
	for i := range r.Config.Models {
		m := &r.Config.Models[i]
		for _, mp := range m.Pools {
			if mp.Name != pool {
				continue
			}
			for _, p := range r.Prompts {
				if p.key == m.Tokenizer {
					return p.identity
				}
			}
		}
	}
	return ""
}

// cacheIdentities returns the cache identity of each pool.
func (r *Revision) cacheIdentities() map[string]string {
	out := make(map[string]string, len(r.Config.Pools))
	for i := range r.Config.Pools {
		out[r.Config.Pools[i].Name] = r.cacheIdentity(r.Config.Pools[i].Name)
	}
	return out
}

// CheckPrompts runs the background checks of every tokenizer until ctx ends: it
// computes some prompts again and compares them with the cached result.
func (m *Manager) CheckPrompts(ctx context.Context) error {
	running := map[*chat.Model]bool{}
	var wg sync.WaitGroup
	defer wg.Wait()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		l := m.Acquire()
		for _, p := range l.Value().Prompts {
			if !running[p.chat] {
				running[p.chat] = true
				wg.Go(func() { m.check(ctx, p.chat) })
			}
		}
		l.Release()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Manager) check(ctx context.Context, model *chat.Model) {
	for {
		c, err := model.NextCheck(ctx)
		if err != nil {
			return
		}
		if !c.Run() {
			m.opt.Log.Error("a recomputed prompt differs from its cached one; the model's prompts are no longer exact",
				"reason", model.Stats().Reason)
		}
	}
}

// CollectPrompts emits the metrics of the tokenizers in use.
func (m *Manager) CollectPrompts(e *telemetry.Emitter) {
	l := m.Acquire()
	defer l.Release()
	for _, p := range l.Value().Prompts {
		st := p.chat.Stats()
		labels := []string{p.key.Dir}
		exact := 0.0
		if st.Exact {
			exact = 1
		}
		e.Emit(metric.PromptsExact, exact, labels...)
		e.Emit(metric.PromptsMemoBytes, float64(st.Bytes), labels...)
		e.Emit(metric.Prompts, float64(st.Requests), labels...)
		e.Emit(metric.PromptsApproximate, float64(st.Approximate), labels...)
		e.Emit(metric.PromptsEncodedBytes, float64(st.EncodedBytes), labels...)
		e.Emit(metric.PromptsChecks, float64(st.Checks), labels...)
		e.Emit(metric.PromptsCheckFailures, float64(st.CheckFailures), labels...)
	}
}

// Tokenize returns the token ids of a text, or of a chat request body, as the
// router counts them. library is auto, bpe or hf.
func Tokenize(dir, library string, in []byte, isChat bool) ([]uint32, error) {
	t := &config.Tokenizer{Dir: dir, TimeZone: "UTC", Library: library}
	if !isChat {
		e, err := Encoder(t)
		if err != nil {
			return nil, err
		}
		return e.Encode([]uint32{}, in)
	}
	p, err := OpenPrompts(t, 0)
	if err != nil {
		return nil, err
	}
	var r llmapi.Request
	if err := r.Scan(llmapi.OpChat, in); err != nil {
		return nil, err
	}
	return p.Chat().Tokens(&r, []uint32{})
}
