package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/quota"
)

func refusedWith(t *testing.T, err error, code llmapi.Code, after time.Duration) {
	t.Helper()
	d, ok := errors.AsType[*DeniedError](err)
	if !ok || d.Code != code || d.RetryAfter != after || after > 0 && code != llmapi.CodeNoEligibleEndpoint &&
		d.Status != 429 {
		t.Errorf("got %+v, want %s with Retry-After %v", err, code, after)
	}
}

func quotaRig(t *testing.T) (*rig, *time.Time) {
	now := time.Unix(1_700_000_000, 0)
	return newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } }), &now
}

// TestQuota_requests: placed, refused and failed requests count as documented, and a
// new revision of the rules continues the counts.
func TestQuota_requests(t *testing.T) {
	r, now := quotaRig(t)
	r.policy.d.RequestsPerMinute = 3
	end(r.place(r.request("x")))
	r.place(r.request("x")).Done(exchange.Outcome{End: exchange.EndConnect, Status: 502}) // not the client's fault
	q := r.request("x")
	q.API.Model = "nope"
	if _, err := r.sched.Schedule(q); err == nil {
		t.Fatal("an unknown model was placed")
	}
	r.policy.d.MaxPromptTokens = 10
	_, err := r.sched.Schedule(r.request(words(1, 20)))
	refusedWith(t, err, llmapi.CodeContextLength, 0) // its fault: counts
	r.policy.d.MaxPromptTokens = 0
	next, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.sched = next
	q = r.request("x")
	end(r.place(q))
	if got := q.Quota.Requests; got != (quota.Remaining{Limit: 3, Left: 0, Reset: time.Minute}) {
		t.Errorf("got usage %+v, want 0 of 3 left", got)
	}
	q = r.request("x")
	_, err = r.sched.Schedule(q)
	refusedWith(t, err, llmapi.CodeRateLimit, 20*time.Second)
	if q.Quota.Requests.Limit != 3 {
		t.Errorf("a refusal tells %+v", q.Quota)
	}
	if e := r.sched.DryRun(r.request("x")); !e.Allow || fmt.Sprint(e.Policy["limits"]) != "map[requests_per_minute:3]" {
		t.Errorf("explain: %+v", e)
	}
	*now = now.Add(20 * time.Second)
	end(r.place(r.request("x")))
	r.store.Update(0, func(s *endpoint.State) { s.Ready = false })
	r.store.Update(1, func(s *endpoint.State) { s.Ready = false })
	*now = now.Add(20 * time.Second)
	for range 5 { // no endpoint: not its fault
		_, err = r.sched.Schedule(r.request("x"))
		refusedWith(t, err, llmapi.CodeNoEligibleEndpoint, retrySoon)
	}
	r.idle()
}

func TestQuota_concurrency(t *testing.T) {
	r, _ := quotaRig(t)
	r.policy.d.MaxConcurrency = 2
	a, b := r.place(r.request("x")), r.place(r.request("x"))
	_, err := r.sched.Schedule(r.request("x"))
	refusedWith(t, err, llmapi.CodeConcurrencyLimit, time.Second)
	r.policy.d.RateClass = "batch"
	end(r.place(r.request("x"))) // another budget
	r.policy.d.RateClass = ""
	a.Done(exchange.Outcome{End: exchange.EndClientGone, Status: 499})
	end(r.place(r.request("x")))
	end(b)
	r.idle()
}

// TestQuota_tokens: the tokens of prompt and answer are reserved, and settled by the
// engine's report.
func TestQuota_tokens(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome exchange.Outcome
		left    int
	}{
		{"as reported", exchange.Outcome{Status: 200, HasUsage: true, PromptTokens: 100, OutputTokens: 20,
			End: exchange.EndComplete}, 880},
		{"not reported", exchange.Outcome{Status: 200, End: exchange.EndComplete}, 800},
		{"client gone", exchange.Outcome{Status: 499, End: exchange.EndClientGone}, 800},
		{"refused by the engine", exchange.Outcome{Status: 400, End: exchange.EndComplete}, 1000},
		{"engine died", exchange.Outcome{Status: 502, End: exchange.EndDied}, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := quotaRig(t)
			r.policy.d.TokensPerMinute = 1000
			q := r.request(words(1, 100))
			q.API.MaxTokens, q.API.N = 50, 2
			p := r.place(q)
			if q.Quota.Tokens.Left != 800 {
				t.Errorf("reserved: %+v, want 800 left", q.Quota.Tokens)
			}
			p.Done(c.outcome)
			q = r.request(words(1, 1))
			q.API.MaxTokens = 1
			end(r.place(q))
			if got := q.Quota.Tokens.Left; got != c.left-2 {
				t.Errorf("settled: %d left, want %d", got, c.left-2)
			}
			q = r.request(words(1, 1100))
			_, err := r.sched.Schedule(q)
			refusedWith(t, err, llmapi.CodeRequestTooLarge, 0)
			q = r.request(words(1, 900))
			q.API.MaxTokens = 110
			_, err = r.sched.Schedule(q)
			refusedWith(t, err, llmapi.CodeRateLimit, time.Duration(1000-(c.left-2))*60*time.Millisecond)
		})
	}
}

// TestQuota_unknownPrompt: for a prompt whose tokens are unknown a bounded estimate is
// reserved; it is not refused for good, and settled by the engine's report.
func TestQuota_unknownPrompt(t *testing.T) {
	r := newRig(t, 1, func(sc *StateConfig, c *Config) {
		now := time.Unix(1_700_000_000, 0)
		sc.Now = func() time.Time { return now }
		c.Models[0].Prompter = wordPrompter{inexact: true}
	})
	r.policy.d.TokensPerMinute = 10_000
	q := r.request(words(1, 1_000_000)) // an image, say
	q.API.MaxTokens = 100
	p := r.place(q)
	if q.Quota.Tokens.Left != 10_000-maxGuess-100 {
		t.Errorf("%d tokens left, want %d", q.Quota.Tokens.Left, 10_000-maxGuess-100)
	}
	p.Done(exchange.Outcome{Status: 200, HasUsage: true, PromptTokens: 1500, OutputTokens: 20, End: exchange.EndComplete})
	q = r.request("x")
	q.API.MaxTokens = 100
	end(r.place(q))
	if got, want := q.Quota.Tokens.Left, 10_000-1520-101; got < want-2 || got > want+2 {
		t.Errorf("%d tokens left after settling, want about %d", got, want)
	}
}

// textPrompter renders no prompt but counts the tokens of its texts.
type textPrompter struct {
	wordPrompter
	tokens int
}

func (p textPrompter) AtLeast(_ *llmapi.Request, limit int) int { return min(p.tokens, limit+1) }

// TestReadPrompt_atLeast: a prompt that cannot be counted exactly is refused if its text
// alone exceeds the limit.
func TestReadPrompt_atLeast(t *testing.T) {
	for tokens, refused := range map[int]bool{0: false, 50: false, 51: true, 5000: true} {
		r := newRig(t, 1, func(_ *StateConfig, c *Config) {
			c.Models[0].Prompter = textPrompter{wordPrompter{inexact: true}, tokens}
		})
		for _, limit := range []int{50, 0} {
			r.policy.d.MaxPromptTokens = limit
			p, err := r.sched.Schedule(r.request("x"))
			d, ok := errors.AsType[*DeniedError](err)
			if want := refused && limit > 0; want != (ok && d.Code == llmapi.CodeContextLength && d.Status == 400 &&
				strings.Contains(d.Message, "50")) || !want && err != nil {
				t.Errorf("%d tokens, limit %d: got %v", tokens, limit, err)
			}
			if err == nil {
				end(p)
			}
		}
		r.idle()
	}
}
