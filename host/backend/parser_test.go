package backend

import (
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// scripted is a parser that says what it was told to.
type scripted struct{ answer atomic.Value } // func([]byte) ([]Figure, error)

func (s *scripted) Parse(text []byte) ([]Figure, error) {
	return s.answer.Load().(func([]byte) ([]Figure, error))(text)
}

func (s *scripted) say(f []Figure, err error) {
	s.answer.Store(func([]byte) ([]Figure, error) { return f, err })
}

func TestMetricsOf(t *testing.T) {
	m, err := metricsOf([]Figure{{FigureRunning, 2}, {FigureWaiting, 3}, {FigureKVUsage, 1.5}, {FigureBlockTokens, 32}, {FigureCacheBlocks, 1e17}, {FigureCacheQueries, 10}, {FigureCacheHits, 4},
		{FigurePromptTokens, 5}, {FigureOutputTokens, 6}, {FigureRequests, 7}, {FigureStartTime, 8}, {FigureSleeping, 1}, {FigureAborted, 9}, {FigureCacheTokens, 11}, {99, 1}})
	want := Metrics{Running: 2, Waiting: 3, KVUsage: 1, BlockTokens: 32, CacheBlocks: 1 << 40, CacheTokens: 11, Sleeping: true, StartTime: 8, Requests: 7, Aborted: 9, PromptTokens: 5, OutputTokens: 6,
		CacheQueries: 10, CacheHits: 4, HasCache: true, HasLoad: true}
	if m.told = 0; err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, m, want)
	}
	if m, _ := metricsOf([]Figure{{FigureCacheHits, 4}}); m.HasCache {
		t.Error("hits without queries are a cache")
	}
	for _, bad := range []Figure{{FigureRunning, math.NaN()}, {FigureRunning, math.Inf(1)}, {FigureWaiting, -1}, {FigureRequests, 1e18}, {FigureBlockTokens, 1025}} {
		if m, err := metricsOf([]Figure{bad}); err == nil {
			t.Errorf("%v: %+v", bad, m)
		}
	}
	// A fall of a counter, or another start, is another process.
	a, _ := metricsOf([]Figure{{FigurePromptTokens, 5}})
	b, _ := metricsOf([]Figure{{FigurePromptTokens, 4}})
	if restarted(&a, &b) == "" || restarted(&b, &a) != "" {
		t.Error("a fallen counter is no restart, or a risen one is")
	}
}

// TestWatcher_parser: figures a parser tells reach the store; where it fails they are
// unknown, counted and told, the sizes stay, and the endpoint serves on.
func TestWatcher_parser(t *testing.T) {
	var pings, stats atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ping":
			pings.Add(1)
		case "/stats":
			stats.Add(1)
			w.Write([]byte("odd"))
		case "/v1/models":
			w.Write([]byte(`{"data": [{"id": "m"}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	p := &scripted{}
	p.say([]Figure{{FigureRunning, 2}, {FigureWaiting, 3}, {FigureKVUsage, 0.5}, {FigureBlockTokens, 32}, {FigureCacheBlocks, 100}}, nil)
	o := watch(t, &fakeEngine{Server: srv}, func(c *Config) {
		c.Dialect = Parsed{Dialect: OpenAI{}, Parser: p, Metrics: "/stats", Health: "/ping"}
		c.Events = Events{Mode: EventsOff}
	})
	s := o.until("the figures", func(s endpoint.State) bool { return s.Ready && s.Running == 2 })
	if s.Waiting != 3 || s.KVUsage != 0.5 || s.BlockTokens != 32 || s.CacheBlocks != 100 || s.ScrapedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	p.say(nil, errors.New("trap"))
	s = o.until("unknown figures", func(s endpoint.State) bool { return s.Running == 0 && o.w.Status().FiguresReason == "trap" })
	if !s.Ready || s.Waiting != 0 || s.KVUsage != 0 || s.BlockTokens != 32 || s.CacheBlocks != 100 || !s.ScrapedAt.IsZero() {
		t.Errorf("after a fault %+v", s)
	}
	n := o.w.Status().ParseFails
	p.say(nil, ErrNoFigures)
	o.until("nothing told", func(endpoint.State) bool { return o.w.Status().FiguresReason == ErrNoFigures.Error() })
	was, from := o.w.Status().ParseFails, stats.Load()
	s = o.until("some scrapes more", func(endpoint.State) bool { return stats.Load() > from+5 })
	if now := o.w.Status().ParseFails; n == 0 || now != was || !s.Ready {
		t.Errorf("%d failures, then %d: nothing told is none", was, now)
	}
	p.say([]Figure{{FigureRunning, 4}}, nil)
	o.until("figures again", func(s endpoint.State) bool { return s.Running == 4 && o.w.Status().FiguresReason == "" })
	if pings.Load() == 0 || o.w.Status().CheckFails != 0 {
		t.Error("the health path was not asked")
	}
}

// FuzzMetricsOf: figures within their range are taken over within theirs.
func FuzzMetricsOf(f *testing.F) {
	f.Add(make([]byte, 24))
	f.Fuzz(func(t *testing.T, b []byte) {
		var figures []Figure
		for ; len(b) >= 9; b = b[9:] {
			figures = append(figures, Figure{FigureID(b[0] % 20), math.Float64frombits(binary.LittleEndian.Uint64(b[1:]))})
		}
		m, err := metricsOf(figures)
		if err == nil && !(m.Running >= 0 && m.Waiting >= 0 && m.KVUsage >= 0 && m.KVUsage <= 1 && m.BlockTokens >= 0 && m.BlockTokens <= 1024 && m.CacheBlocks >= 0 && m.CacheBlocks <= 1<<40 && m.CacheTokens >= 0) {
			t.Errorf("%+v", m)
		}
	})
}
