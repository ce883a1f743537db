package simengine

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// leapClock is a clock whose sleepers never wait.
type leapClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *leapClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *leapClock) Sleep(_ context.Context, d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}

// TestEngine_time: a request takes the time of its steps, by the preset and the
// speed.
func TestEngine_time(t *testing.T) {
	const prompt, output = 3000, 20
	ids := string(mustJSON(seq(1, prompt)))
	for _, name := range []string{"8b-a100", "8b-h100", "70b-4xh100", "instant"} {
		for _, speed := range []float64{1, 10} {
			clock := &leapClock{now: time.Unix(1_800_000_000, 0)}
			toy := newToy()
			toy.words = append(toy.words, make([]string, prompt)...) // so that all ids exist
			r := run(t, func(c *Config) {
				c.Preset, c.Speed, c.Clock, c.Prompter, c.Vocabulary = name, speed, clock, toy, toy
			})
			r.mustPost("/v1/completions", `{"prompt":`+ids+`,"max_tokens":20,"ignore_eos":true}`)
			timing, _, err := Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			var want float64 // ms
			for start := 0; start < prompt; start += timing.Budget {
				n := float64(min(timing.Budget, prompt-start))
				s := float64(start)
				want += timing.C0 + max(timing.Tw, timing.A*n) + timing.B*s + timing.Q*n*(s+n/2)
			}
			for i := range output - 1 {
				want += timing.C0 + timing.Tw + timing.B*float64(prompt+i)
			}
			got := float64(clock.Now().Sub(time.Unix(1_800_000_000, 0))) / 1e6
			if math.Abs(got-want/speed) > 0.01 {
				t.Errorf("%s at speed %v: %.3f ms, want %.3f", name, speed, got, want/speed)
			}
		}
	}
}

// TestEngine_pace: in real time the steps of a stream keep their rate.
func TestEngine_pace(t *testing.T) {
	r := run(t, func(c *Config) { c.Timing = &Timing{C0: 2, Budget: 8192} })
	start := time.Now()
	r.mustPost("/v1/completions", `{"prompt":[1],"max_tokens":100,"ignore_eos":true}`)
	if d := time.Since(start); d < 199*time.Millisecond || d > 2*time.Second {
		t.Errorf("100 steps of 2 ms took %v", d)
	}
}

// TestEngine_stress does everything at once, for the race detector.
func TestEngine_stress(t *testing.T) {
	r := run(t, func(c *Config) { c.CacheBlocks = 64; c.KeepRequests = 50; c.Timing = &Timing{Budget: 64, C0: 0.02} })
	var wg sync.WaitGroup
	client := &http.Client{Timeout: 10 * time.Second}
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				body := with(hello, fmt.Sprintf(`"cache_salt":"%d","stream":%v`, i%3, i%2 == 0))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%5+1)*time.Millisecond)
				req, _ := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/chat/completions", strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				if res, err := client.Do(req); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				cancel()
				paths := []string{"/metrics", "/sim/requests", "/sim/cache?hashes=1", "/sim/faults", "/v1/models"}
				if res, err := client.Get(r.url + paths[(w+i)%len(paths)]); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				switch i % 10 {
				case 3:
					r.Reset()
				case 7:
					r.restart(0)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if c, err := net.Dial("tcp", r.pub); err == nil {
				p := &peer{c: c}
				c.SetDeadline(time.Now().Add(time.Millisecond))
				c.Write(appendMessage(nil, []byte{1}))
				p.c.Close()
			}
		}
	})
	wg.Wait()
	until(t, "idle", func() bool {
		return r.metric("vllm:num_requests_running") == 0 && r.metric("vllm:num_requests_waiting") == 0
	})
	if u := r.metric("vllm:kv_cache_usage_perc"); u != 0 {
		t.Errorf("usage %v when idle", u)
	}
	r.mu.Lock()
	left := len(r.running)
	r.mu.Unlock()
	if left != 0 {
		t.Errorf("%d jobs left", left)
	}
}

func TestLexicon(t *testing.T) {
	toy := newToy()
	l, err := newLexicon(toy, 0)
	if err != nil {
		t.Fatal(err)
	}
	prompt := []uint32{1, 2, 3}
	f := func(lim answerLimits, wantStop bool, lo, hi int) {
		t.Helper()
		got, stop := l.answer(slices.Clone(prompt), prompt, false, lim)
		if n := len(got) - 3; stop != wantStop || n < lo || n > hi {
			t.Errorf("%+v: %d tokens, stop %v", lim, n, stop)
		}
		var text []byte
		for _, id := range got[3:] {
			text = append(text, toy.Token(id)...)
		}
		if again, _ := toy.Encode(nil, text); !slices.Equal(again, got[3:]) {
			t.Errorf("%q has other tokens", text)
		}
	}
	f(answerLimits{mean: 64, maximum: 1000}, true, 33, 96)
	f(answerLimits{mean: 64, maximum: 10}, false, 10, 10)
	f(answerLimits{mean: 64, maximum: 500, minimum: 200}, true, 200, 200)
	f(answerLimits{mean: 64, maximum: 500, noEnding: true}, false, 500, 500)
	f(answerLimits{mean: 1, maximum: 1}, true, 1, 1)
	if _, err := newLexicon(&toyTokenizer{}, 0); err == nil {
		t.Error("a vocabulary without words is content")
	}
}

func BenchmarkStream(b *testing.B) {
	toy := newToy()
	e, err := New(Config{Prompter: toy, Vocabulary: toy, Preset: "instant"})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Run(ctx, ln, nil, nil) }()
	body := with(strings.Replace(hello, "12", "100", 1), `"stream":true`)
	b.ReportAllocs()
	for b.Loop() {
		res, err := http.Post("http://"+ln.Addr().String()+"/v1/chat/completions", "application/json",
			strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/event")
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
