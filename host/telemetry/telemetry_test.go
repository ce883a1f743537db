package telemetry

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// scrape returns the text form, lines without comments.
func scrape(t testing.TB, r *Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "kvasir_") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func expect(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains("\n"+text, "\n"+l+"\n") {
			t.Errorf("no line %q in\n%s", l, text)
		}
	}
}

// TestHistogram_native compares with the official client's native histogram of
// the same schema, bucket for bucket.
func TestHistogram_native(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var ds []time.Duration
	for e := minExp - 3; e < maxExp; e++ { // bounds and their neighbours
		for i := range perTwo {
			d := time.Duration(math.Exp2(float64(e)+float64(i)/perTwo) * 1e9)
			ds = append(ds, d-1, d, d+1)
		}
	}
	for range 5000 {
		ds = append(ds, time.Duration(math.Exp(rng.Float64()*28)))
	}
	ds = append(ds, 0)
	var h Histogram
	ref := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "x", NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Exp2(minExp),
	})
	for _, d := range ds {
		h.Observe(d)
		ref.Observe(d.Seconds())
	}
	var got, want dto.Metric
	if err := (&sample{h: &h}).Write(&got); err != nil {
		t.Fatal(err)
	}
	if err := ref.Write(&want); err != nil {
		t.Fatal(err)
	}
	g, w := got.Histogram, want.Histogram
	if g.GetSchema() != w.GetSchema() || g.GetZeroThreshold() != w.GetZeroThreshold() ||
		g.GetZeroCount() != w.GetZeroCount() || g.GetSampleCount() != w.GetSampleCount() {
		t.Errorf("got schema %d zero %d ≤ %g of %d, want %d %d ≤ %g of %d", g.GetSchema(), g.GetZeroCount(),
			g.GetZeroThreshold(), g.GetSampleCount(),
			w.GetSchema(), w.GetZeroCount(), w.GetZeroThreshold(), w.GetSampleCount())
	}
	if gb, wb := expand(g), expand(w); !reflect.DeepEqual(gb, wb) {
		t.Errorf("buckets: got %v, want %v", gb, wb)
	}
	if math.Abs(g.GetSampleSum()-w.GetSampleSum()) > 1e-6*w.GetSampleSum() {
		t.Errorf("sum: got %g, want %g", g.GetSampleSum(), w.GetSampleSum())
	}
	for _, b := range g.Bucket {
		n := uint64(0)
		for _, d := range ds {
			if d.Seconds() <= b.GetUpperBound() {
				n++
			}
		}
		if b.GetCumulativeCount() != n {
			t.Errorf("classic bucket %g: got %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), n)
		}
	}
}

// expand turns spans and deltas into counts by bucket key, without empty ones.
func expand(h *dto.Histogram) map[int]int64 {
	m := map[int]int64{}
	k, n, d := 0, int64(0), 0
	for _, s := range h.PositiveSpan {
		k += int(s.GetOffset())
		for range s.GetLength() {
			n += h.PositiveDelta[d]
			d++
			if n != 0 {
				m[k] = n
			}
			k++
		}
	}
	return m
}

func TestHistogram_extremes(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{-time.Hour, 0, 1, math.MaxInt64} {
		h.Observe(d)
	}
	if s := h.snapshot(); s.zero != 3 || s.counts[buckets-1] != 1 || s.count != 4 {
		t.Errorf("got zero %d last %d of %d", s.zero, s.counts[buckets-1], s.count)
	}
}

func TestMetrics(t *testing.T) {
	r := New()
	m := NewMetrics(r)
	m.Placed(RouteWarm, 100, 64)
	m.Placed(RouteCold, 0, 0)
	m.Placed(RouteSpill, 10, 99)
	end := Result{Route: RouteWarm, Status: 200, TTFT: 100 * time.Millisecond, E2E: 300 * time.Millisecond, HasUsage: true,
		HasCached:    true,
		PromptTokens: 100, CachedTokens: 64, OutTokens: 11, PredictedCached: 64, HasPrediction: true}
	m.Ended(&end)
	end.PredictedCached = 80
	m.Ended(&end)
	end.PredictedCached = 0
	m.Ended(&end)
	end.HasCached = false
	m.Ended(&end)
	m.Ended(&Result{Cause: "client_gone"})
	text := scrape(t, r)
	expect(t, text,
		`kvasir_e2e_seconds_bucket{route="warm",le="0.5"} 4`, `kvasir_e2e_seconds_bucket{route="warm",le="0.25"} 0`,
		`kvasir_ttft_seconds_count{route="warm"} 4`, `kvasir_itl_seconds_count 4`, `kvasir_itl_seconds_sum 0.08`,
		`kvasir_e2e_seconds_sum{route="warm"} 1.2`,
		`kvasir_placements_total{kind="warm"} 1`, `kvasir_placements_total{kind="cold"} 1`,
		`kvasir_placements_total{kind="spill"} 1`,
		`kvasir_prompt_tokens_predicted_total{cache="cached"} 74`,
		`kvasir_prompt_tokens_predicted_total{cache="uncached"} 36`,
		`kvasir_prompt_tokens_reported_total{cache="cached"} 192`,
		`kvasir_prompt_tokens_reported_total{cache="uncached"} 108`,
		`kvasir_prompt_tokens_reported_total{cache="unknown"} 100`,
		`kvasir_output_tokens_total 44`, `kvasir_predictions_total{result="exact"} 1`,
		`kvasir_predictions_total{result="wrong"} 2`,
		`kvasir_prediction_error_tokens_total{side="over"} 16`, `kvasir_prediction_error_tokens_total{side="under"} 64`,
		`kvasir_requests_total{status="200"} 4`, `kvasir_requests_total{status="000"} 1`,
		`kvasir_failures_total{cause="client_gone"} 1`)
}

// TestMetrics_earlierBlocks: a prediction that is too low is no error of the index where the
// endpoint may hold blocks that the router has not seen; one that is too high is.
func TestMetrics_earlierBlocks(t *testing.T) {
	r := New()
	m := NewMetrics(r)
	end := Result{Route: RouteWarm, Status: 200, HasUsage: true, HasCached: true, PromptTokens: 100, CachedTokens: 64,
		HasPrediction: true, EarlierBlocks: true}
	for _, end.PredictedCached = range []int{48, 64, 80} {
		m.Ended(&end)
	}
	expect(t, scrape(t, r), `kvasir_predictions_total{result="earlier"} 1`,
		`kvasir_predictions_total{result="exact"} 1`, `kvasir_predictions_total{result="wrong"} 1`,
		`kvasir_prediction_error_tokens_total{side="earlier"} 16`,
		`kvasir_prediction_error_tokens_total{side="over"} 16`, `kvasir_prediction_error_tokens_total{side="under"} 0`)
}

func TestRegistry_functions(t *testing.T) {
	r := New()
	endpoints := []string{"one", "two"}
	r.Collect(func(e *Emitter) {
		e.Emit(metric.IndexBytes, 42)
		for i, u := range endpoints {
			e.Emit(metric.EndpointInflight, float64(i), u, "p")
			e.EmitFlag(metric.EndpointReady, i == 0, u, "p")
		}
	})
	r.Collect(func(e *Emitter) { e.Emit(metric.Refused, 7, "b") })
	expect(t, scrape(t, r), `kvasir_index_bytes 42`, `kvasir_refused_total{reason="b"} 7`,
		`kvasir_endpoint_inflight{endpoint="two",pool="p"} 1`,
		`kvasir_endpoint_ready{endpoint="one",pool="p"} 1`, `kvasir_endpoint_ready{endpoint="two",pool="p"} 0`)
	r.Collect(func(e *Emitter) {
		e.EmitHistogram(metric.StageSeconds, 6, 9, []float64{0.5, 1}, []uint64{1, 2, 3}, "a")
	})
	expect(t, scrape(t, r), `kvasir_stage_seconds_bucket{stage="a",le="0.5"} 1`,
		`kvasir_stage_seconds_bucket{stage="a",le="1"} 3`,
		`kvasir_stage_seconds_bucket{stage="a",le="+Inf"} 6`, `kvasir_stage_seconds_sum{stage="a"} 9`,
		`kvasir_stage_seconds_count{stage="a"} 6`)
	endpoints = []string{"bad\xff", "two"}
	if text := scrape(t, r); strings.Contains(text, `"one"`) ||
		!strings.Contains(text, `kvasir_endpoint_inflight{endpoint="two",pool="p"} 1`) {
		t.Errorf("got %s", text)
	}
}

// TestEmitter_wrong: a sample that does not match its declaration is a bug.
func TestEmitter_wrong(t *testing.T) {
	e := &Emitter{make(chan prometheus.Metric, 1)}
	for name, f := range map[string]func(){
		"labels":           func() { e.Emit(metric.EndpointReady, 1, "http://a") },
		"sample of many":   func() { e.Emit(metric.StageSeconds, 1, "read") },
		"many of a sample": func() { e.EmitHistogram(metric.EndpointReady, 0, 0, nil, nil, "a", "b") },
		"set of a gauge":   func() { New().NewCounterSet(metric.IndexBytes) },
	} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: telemetry: ") {
					t.Errorf("%s: panic %q", name, s)
				}
			}()
			f()
		}()
	}
}

func TestRegistry_forms(t *testing.T) {
	r := New()
	NewMetrics(r).Ended(&Result{Route: RouteWarm, Status: 200, TTFT: time.Second})
	const protobuf = "application/vnd.google.protobuf"
	for accept, want := range map[string]string{
		"": "text/plain", "application/openmetrics-text; version=1.0.0": "application/openmetrics-text",
		protobuf + "; proto=io.prometheus.client.MetricFamily; encoding=delimited": protobuf,
	} {
		q := httptest.NewRequest("GET", "/metrics", nil)
		q.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, q)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(got, want) ||
			!bytes.Contains(w.Body.Bytes(), []byte("kvasir_ttft_seconds")) {
			t.Errorf("%s: got %d %s", accept, w.Code, got)
		}
	}
}

func TestSet_bound(t *testing.T) {
	r := New()
	s := r.NewCounterSet(metric.Failures)
	for i := range 1000 {
		s.With(fmt.Sprint(i)).Add(1)
	}
	text := scrape(t, r)
	expect(t, text, `kvasir_failures_total{cause="other"} 936`)
	if n := strings.Count(text, "\n"); n != maxValues+1 {
		t.Errorf("got %d series", n)
	}
}

func TestMetrics_allocs(t *testing.T) {
	m := NewMetrics(New())
	r := Result{Route: RouteWarm, Status: 200, TTFT: 1, E2E: 3, HasUsage: true, HasCached: true, PromptTokens: 9,
		OutTokens: 3, HasPrediction: true, PredictedCached: 2}
	f := func() {
		m.Placed(RouteWarm, 100, 10)
		m.Ended(&r)
	}
	f()
	if got := testing.AllocsPerRun(100, f); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// TestMetrics_stress observes and scrapes concurrently and checks that no observation
// is lost.
func TestMetrics_stress(t *testing.T) {
	r := New()
	m := NewMetrics(r)
	const workers, each = 8, 500
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				m.Ended(&Result{Route: fmt.Sprint("s", i%20), TTFT: time.Duration(i*w+1) * time.Microsecond})
				m.Placed(RouteCold, 10, 1)
				if i%100 == 0 {
					scrape(t, r)
				}
			}
		})
	}
	wg.Wait()
	n := uint64(0)
	for i := range 20 {
		n += m.ttft.With(fmt.Sprint("s", i)).Count()
	}
	if n != workers*each || m.predictedCached.Value() != workers*each {
		t.Errorf("got %d and %d, want %d", n, m.predictedCached.Value(), workers*each)
	}
}

func TestNewLogHandler(t *testing.T) {
	var b bytes.Buffer
	h, level, err := NewLogHandler(&b, LogConfig{Format: "json", Level: "warn"})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(h)
	log.Info("hidden")
	level.Set(slog.LevelInfo)
	log.Info("shown", "Authorization", "Bearer kv_x", slog.Group("g", "salt", "s3cret"), "took", 1500*time.Millisecond,
		"tenant", "acme")
	if got := b.String(); strings.Contains(got, "hidden") || strings.Contains(got, "kv_x") ||
		strings.Contains(got, "s3cret") || !strings.Contains(got, `"took":"1.5s"`) ||
		!strings.Contains(got, `"tenant":"acme"`) {
		t.Errorf("got %s", got)
	}
	for _, c := range []LogConfig{{Format: "xml"}, {Level: "loud"}} {
		if _, _, err := NewLogHandler(&b, c); err == nil || !strings.HasPrefix(err.Error(), "telemetry: log ") {
			t.Errorf("got %v", err)
		}
	}
}

func BenchmarkHistogram_Observe(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	d := time.Duration(1)
	for b.Loop() {
		h.Observe(d)
		d = d*5/4%time.Second + 1
	}
}
