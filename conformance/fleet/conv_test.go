package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// conversation is one of many conversations. Clients pick one at random and send its next turn.
type conversation struct {
	messages []any
	turn     int
	busy     bool
	last     string // endpoint of its last turn
}

// convResult is the result of a run.
type convResult struct {
	turns, same int            // turns after the first; those placed on the endpoint of the previous turn
	per         map[string]int // requests by endpoint
	cached      int            // cached tokens, as the engines report them
}

func (r *convResult) balance(endpoints int) float64 {
	most, sum := 0, 0
	for _, n := range r.per {
		most, sum = max(most, n), sum+n
	}
	return float64(most) * float64(endpoints) / float64(sum)
}

var convWords = strings.Fields("the river carries old stones past a quiet field where engines hum and routers learn " +
	"which path a question took before")

func sentence(r *rand.Rand, n int) string {
	w := make([]string, n)
	for i := range w {
		w[i] = convWords[r.IntN(len(convWords))]
	}
	return strings.Join(w, " ")
}

// converse runs `count` conversations of `turns` turns each with `clients` clients.
func converse(t *testing.T, router *harness.Router, model string, shared bool, count, turns, clients int) convResult {
	r := rand.New(rand.NewPCG(11, uint64(count)))
	system := "You are helpful."
	if shared {
		system = sentence(r, 1500)
	}
	cs := make([]*conversation, count)
	for i := range cs {
		cs[i] = &conversation{messages: []any{map[string]any{"role": "system", "content": system}}}
	}
	var mu sync.Mutex
	res := convResult{per: map[string]int{}}
	pick := func() *conversation {
		mu.Lock()
		defer mu.Unlock()
		var can []*conversation
		for _, c := range cs {
			if !c.busy && c.turn < turns {
				can = append(can, c)
			}
		}
		if len(can) == 0 {
			return nil
		}
		c := can[r.IntN(len(can))]
		c.busy = true
		c.messages = append(c.messages,
			map[string]any{"role": "user", "content": fmt.Sprint(r.Uint32(), " ", sentence(r, 200))})
		return c
	}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for c := pick(); c != nil; c = pick() {
				a, err := harness.Post(router.URL+"/v1/chat/completions", "",
					map[string]any{"model": model, "messages": c.messages, "max_tokens": 1})
				if err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
					return
				}
				got, err := a.Completion()
				if err != nil {
					t.Error(err)
					return
				}
				e := harness.Explain(t, router.Admin, router.Token, a.RequestID)
				mu.Lock()
				n, _ := got.Usage.Cached()
				res.cached += n
				res.per[e.Chosen]++
				if c.turn > 0 {
					res.turns++
					if c.last == e.Chosen {
						res.same++
					} else {
						for _, x := range e.Candidates {
							t.Logf("turn %d moved from %s to %s: %s matched %v, total %.0f, columns %v, %s", c.turn, c.last, e.Chosen,
								x.Endpoint, x.Matched, x.Total, x.Columns, e.Arm)
						}
					}
				}
				c.last = e.Chosen
				c.turn++
				c.busy = false
				c.messages = append(c.messages, map[string]any{"role": "assistant", "content": got.Choices[0].Message.Content})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return res
}

// TestConversations runs conversations on four engines without events, so that
// placement has only its own predictions. An engine takes 30 ms for any request, so
// that no difference of load justifies a move. It answers all waiting requests in one
// step, so 100 clients arrive in waves, and while 30 requests wait at one engine and 5
// at another, some turns move, as they should. Turns return to their engine, and a
// system prompt that all conversations share attracts none of them to one engine.
//
// An engine's count of conversations differs from the mean by a few, whatever the mean
// is: by 3 in 3 % of runs. So the bound on the balance needs a mean that is large beside
// that: with 24 conversations an engine, 1 of 100 runs gives 1.12, none more.
func TestConversations(t *testing.T) {
	es := startEngines(t, 4, "--step-ms", "30")
	var urls []string
	for _, e := range es {
		urls = append(urls, strconv.Quote(e.URL))
	}
	for _, tc := range []struct {
		shared                bool
		count, turns, clients int
		same                  float64 // share of turns that must return
	}{{false, 96, 4, 8, 0.98}, {true, 96, 4, 8, 0.98}, {false, 400, 4, 100, 0.95}, {true, 400, 4, 100, 0.95}} {
		t.Run(fmt.Sprintf("shared=%t/clients=%d", tc.shared, tc.clients), func(t *testing.T) {
			r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: [`+strings.Join(urls, ", ")+`], events: {mode: "off"}}]
models: [{name: `+es[0].Model+`, pools: [main], tokenizer: {dir: `+demoDir(t)+`}}]
profiles: [{name: default, holdout: 0}]
`)
			res := converse(t, r, es[0].Model, tc.shared, tc.count, tc.turns, tc.clients)
			same, balance := float64(res.same)/float64(res.turns), res.balance(len(es))
			t.Logf("same engine %.3f, balance %.2f, requests %v", same, balance, res.per)
			if same < tc.same {
				t.Errorf("%.3f of the turns returned to their engine, want %.2f", same, tc.same)
			}
			if balance > 1.25 {
				t.Errorf("the most loaded engine has %.2f of the mean, want 1.25", balance)
			}
		})
	}
}
