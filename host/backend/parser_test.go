package backend

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// scripted is a parser with a given answer.
type scripted struct{ answer atomic.Value } // func([]byte) ([]dialect.Figure, error)

func (s *scripted) Parse(text []byte) ([]dialect.Figure, error) {
	return s.answer.Load().(func([]byte) ([]dialect.Figure, error))(text)
}

func (s *scripted) say(f []dialect.Figure, err error) {
	s.answer.Store(func([]byte) ([]dialect.Figure, error) { return f, err })
}

// TestWatcher_parser: a parser's figures reach the store; where it fails they are
// unknown, counted and reported, the sizes stay, and the endpoint continues to serve.
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
	p.say([]dialect.Figure{{ID: dialect.FigureRunning, Value: 2}, {ID: dialect.FigureWaiting, Value: 3},
		{ID: dialect.FigureKVUsage, Value: 0.5}, {ID: dialect.FigureBlockTokens, Value: 32}, {ID: dialect.FigureCacheBlocks,
			Value: 100}}, nil)
	o := watch(t, &fakeEngine{Server: srv}, func(c *Config) {
		c.Dialect = dialect.Of("openai")
		c.Scrape = &Scrape{Parser: p, Metrics: "/stats", Health: "/ping"}
		c.Events = Events{Mode: EventsOff}
	})
	s := o.until("the figures", func(s endpoint.State) bool { return s.Ready && s.Running == 2 })
	if s.Waiting != 3 || s.KVUsage != 0.5 || s.BlockTokens != 32 || s.CacheBlocks != 100 || s.ScrapedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	p.say(nil, errors.New("trap"))
	s = o.until("unknown figures", func(s endpoint.State) bool {
		return s.Running == 0 &&
			o.w.Status().FiguresReason == "trap"
	})
	if !s.Ready || s.Waiting != 0 || s.KVUsage != 0 || s.BlockTokens != 32 || s.CacheBlocks != 100 ||
		!s.ScrapedAt.IsZero() {
		t.Errorf("after a fault %+v", s)
	}
	n := o.w.Status().ParseFails
	p.say(nil, ErrNoFigures)
	o.until("no figures", func(endpoint.State) bool { return o.w.Status().FiguresReason == ErrNoFigures.Error() })
	was, from := o.w.Status().ParseFails, stats.Load()
	s = o.until("some scrapes more", func(endpoint.State) bool { return stats.Load() > from+5 })
	if now := o.w.Status().ParseFails; n == 0 || now != was || !s.Ready {
		t.Errorf("%d failures, then %d: no figures are no failure", was, now)
	}
	p.say([]dialect.Figure{{ID: dialect.FigureRunning, Value: 4}}, nil)
	o.until("figures again", func(s endpoint.State) bool { return s.Running == 4 && o.w.Status().FiguresReason == "" })
	if pings.Load() == 0 || o.w.Status().CheckFails != 0 {
		t.Error("the health path was not asked")
	}
}
