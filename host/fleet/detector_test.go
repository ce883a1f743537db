package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

func ended200(tenant string, prompt, cached, predicted, output int) *scheduler.Observation {
	return &scheduler.Observation{Tenant: tenant, PromptTokens: prompt, PredictedCached: predicted,
		Outcome: exchange.Outcome{Status: 200, HasUsage: true, HasCached: true, PromptTokens: prompt, CachedTokens: cached,
			OutputTokens: output, End: exchange.EndComplete}}
}

// TestDetector_spikes: a tenant whose prompts suddenly miss is logged once; one
// whose prompts always miss, or hit now and then, is not.
func TestDetector_spikes(t *testing.T) {
	var log bytes.Buffer
	d := NewDetector(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 500 {
		d.Observe(ended200("cold", 1000, 0, 0, 20), true)
		d.Observe(ended200("mixed", 1000, 900*(i%2), 0, 20), true)
		d.Observe(ended200("warm", 1000, 950, 950, 20), true)
	}
	if d.spikes != 0 {
		t.Fatalf("%d spikes in steady traffic:\n%s", d.spikes, &log)
	}
	for range 60 {
		d.Observe(ended200("warm", 1000, 0, 0, 1), true)
	}
	if d.spikes != 1 || strings.Count(log.String(), "tenant=warm") != 1 {
		t.Errorf("got %d spikes, want 1:\n%s", d.spikes, &log)
	}
	if d.tenants["warm"].single != 60 || d.tenants["cold"].single != 0 {
		t.Errorf("single-token answers: %d and %d, want 60 and 0", d.tenants["warm"].single, d.tenants["cold"].single)
	}
	for range 200 {
		d.Observe(ended200("warm", 1000, 950, 950, 20), true)
	}
	for range 60 {
		d.Observe(ended200("warm", 1000, 0, 0, 20), true)
	}
	if d.spikes != 2 {
		t.Errorf("got %d spikes, want a second one", d.spikes)
	}
}

// TestDetector_unexplained: what placement found to be unexplained is counted.
func TestDetector_unexplained(t *testing.T) {
	d := NewDetector(slog.New(slog.DiscardHandler))
	d.Observe(ended200("a", 1000, 900, 900, 5), true)
	o := ended200("a", 1000, 512, 0, 5)
	o.Unexplained = 512
	d.Observe(o, true)
	d.Observe(o, false)
	if d.unexplained != 512 || d.unproven != 512 {
		t.Errorf("%d unexplained tokens, %d unproven, want 512 each", d.unexplained, d.unproven)
	}
}

// TestDetector_stress: the tenants counted for each are bounded, and nothing is lost.
func TestDetector_stress(t *testing.T) {
	d := NewDetector(slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				d.Observe(ended200(fmt.Sprint(g, "-", i), 10, 0, 0, 1), true)
			}
		})
	}
	wg.Wait()
	sum := d.other.requests
	for _, s := range d.tenants {
		sum += s.requests
	}
	if len(d.tenants) != maxTenants || sum != 8000 || d.other.requests != 8000-maxTenants {
		t.Errorf("%d tenants, %d requests, %d of others", len(d.tenants), sum, d.other.requests)
	}
}
