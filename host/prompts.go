package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/telemetry"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/hf"
)

// prompts is one tokenizer directory at work: from bodies to block hashes.
type prompts struct {
	key      config.Tokenizer
	identity string // digest of the files; the cache identity of its models
	chat     *chat.Model
}

// loadPrompts opens a tokenizer directory, or takes over what an unchanged one
// gave before: its memo is warm.
func (h *Host) loadPrompts(t *config.Tokenizer, g, prev *generation) (*prompts, error) {
	for _, p := range g.prompts {
		if p.key == *t {
			return p, nil
		}
	}
	dir := os.DirFS(t.Dir)
	id, err := chat.Identity(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", t.Dir, err)
	}
	if t.Digest != "" && t.Digest != id {
		return nil, fmt.Errorf("tokenizer %s: digest is %s, configured is %s", t.Dir, id, t.Digest)
	}
	if prev != nil {
		for _, p := range prev.prompts {
			if p.key == *t && p.identity == id {
				g.prompts = append(g.prompts, p)
				return p, nil
			}
		}
	}
	p, err := openPrompts(t, int64(h.cfg.Limits.Prompts))
	if err != nil {
		return nil, err
	}
	g.prompts = append(g.prompts, p)
	return p, nil
}

// openPrompts opens a tokenizer directory with the library that t asks for:
// "auto" takes bpe, and hf for what bpe does not know.
func openPrompts(t *config.Tokenizer, budget int64) (*prompts, error) {
	enc, err := encoder(t)
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
	return &prompts{key: *t, identity: cfg.CacheIdentity, chat: m}, nil
}

func encoder(t *config.Tokenizer) (tokenizer.Encoder, error) {
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

// cacheIdentity is what seeds the block hashes of a pool's endpoints: the
// tokenizer of the models it serves (one, config checks that).
func (g *generation) cacheIdentity(pool string) string {
	for i := range g.cfg.Models {
		m := &g.cfg.Models[i]
		for _, mp := range m.Pools {
			if mp.Name != pool {
				continue
			}
			for _, p := range g.prompts {
				if p.key == m.Tokenizer {
					return p.identity
				}
			}
		}
	}
	return ""
}

// cacheIdentities returns the cache identity of each pool.
func (g *generation) cacheIdentities() map[string]string {
	out := make(map[string]string, len(g.cfg.Pools))
	for i := range g.cfg.Pools {
		out[g.cfg.Pools[i].Name] = g.cacheIdentity(g.cfg.Pools[i].Name)
	}
	return out
}

// checkPrompts runs the background checks of every tokenizer: one request in
// many is computed whole and compared with what the memo told.
func (h *Host) checkPrompts(ctx context.Context) error {
	running := map[*chat.Model]bool{}
	var wg sync.WaitGroup
	defer wg.Wait()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		l := h.rules.Acquire()
		for _, p := range l.Value().prompts {
			if !running[p.chat] {
				running[p.chat] = true
				wg.Go(func() { h.check(ctx, p.chat) })
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

func (h *Host) check(ctx context.Context, m *chat.Model) {
	for {
		c, err := m.NextCheck(ctx)
		if err != nil {
			return
		}
		if !c.Run() {
			h.log.Error("a prompt computed whole differs from its memo; the model's prompts are no longer exact", "reason", m.Stats().Reason)
		}
	}
}

func (h *Host) collectPrompts(e *telemetry.Emitter) {
	l := h.rules.Acquire()
	defer l.Release()
	for _, p := range l.Value().prompts {
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
