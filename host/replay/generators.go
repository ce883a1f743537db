package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
)

// writer makes the prompts of one conversation out of stretches of text.
type writer struct {
	names  []uint64
	tokens int
	chain  chainer
}

// append adds tokens of the text named text to the prompt. Prompts that begin with
// the same stretches of the same lengths have the same blocks, but for the block in
// which a stretch ends, which is named by both.
func (w *writer) append(text uint64, tokens int) {
	w.tokens += tokens
	for len(w.names) < w.tokens/GeneratedBlock {
		w.names = append(w.names, mix(text, uint64(len(w.names))))
	}
}

// request returns the request of the prompt so far.
func (w *writer) request(output int, think float64) Request {
	return Request{Blocks: w.chain.add(w.names), Tokens: max(1, w.tokens), Output: max(1, output), Think: think}
}

// exponential returns a length of the given mean, at least 1.
func exponential(r *rand.Rand, mean int) int { return 1 + int(r.ExpFloat64()*float64(mean)) }

// zipf returns a number in [0, n) of which 0 is the most frequent, i about 1/(1+i)^s as
// often.
type zipf []float64

func newZipf(n int, s float64) zipf {
	z := make(zipf, n)
	sum := 0.0
	for i := range z {
		sum += math.Pow(float64(i+1), -s)
		z[i] = sum
	}
	return z
}

func (z zipf) draw(r *rand.Rand) int {
	x := r.Float64() * z[len(z)-1]
	return min(sort.SearchFloat64s(z, x), len(z)-1)
}

// RAG describes questions about documents that a search found: a system prompt, the
// documents in the order of their ranks, the question. Questions arrive at random, each a
// conversation of its own.
type RAG struct {
	Requests  int     // default 3,000
	Rate      float64 // a second; default 4
	System    int     // tokens of the system prompt; default 1,500
	Documents int     // in the collection; default 400
	Length    int     // mean tokens of a document; default 3,000
	Found     int     // documents in a prompt; default 3
}

// ragSkew is the exponent of the documents' popularity.
const ragSkew = 1.0

// Generate returns the workload. The same seed gives the same one.
func (g RAG) Generate(seed uint64) *Trace {
	def(&g.Requests, 3000)
	def(&g.System, 1500)
	def(&g.Documents, 400)
	def(&g.Length, 3000)
	def(&g.Found, 3)
	def(&g.Rate, 4)
	r := rand.New(rand.NewPCG(seed, 23))
	base := hashName(fmt.Sprint("rag ", seed))
	length := make([]int, g.Documents)
	for i := range length {
		length[i] = g.Length/4 + exponential(r, g.Length*3/4)
	}
	z := newZipf(g.Documents, ragSkew)
	t := &Trace{Name: "rag", BlockTokens: GeneratedBlock}
	at := 0.0
	for i := range g.Requests {
		at += r.ExpFloat64() / g.Rate
		var w writer
		w.append(base, g.System)
		for range g.Found {
			d := z.draw(r)
			w.append(mix(base, uint64(d)+1), length[d])
		}
		w.append(mix(base, uint64(i)<<32), exponential(r, 60))
		t.Conversations = append(t.Conversations, Conversation{Name: fmt.Sprint("question ", i+1), Start: at,
			Requests: []Request{w.request(exponential(r, 250), 0)}})
	}
	return t
}

// Tenants describes chats of several tenants: each has a system prompt of its own, and
// they send unequal shares of the traffic.
type Tenants struct {
	Tenants       int     // default 12
	Conversations int     // default 500
	Rate          float64 // conversations a second; default 1
	Turns         int     // mean; default 6
	System        int     // mean tokens of a tenant's system prompt; default 3,000
	Think         float64 // mean pause in seconds; default 8
}

// tenantSkew is the exponent of the tenants' shares: the first of twelve has a
// quarter of the traffic.
const tenantSkew = 0.8

// Generate returns the workload. The same seed gives the same one.
func (g Tenants) Generate(seed uint64) *Trace {
	def(&g.Tenants, 12)
	def(&g.Conversations, 500)
	def(&g.Turns, 6)
	def(&g.System, 3000)
	def(&g.Rate, 1)
	def(&g.Think, 8)
	r := rand.New(rand.NewPCG(seed, 29))
	base := hashName(fmt.Sprint("tenants ", seed))
	system := make([]int, g.Tenants)
	for i := range system {
		system[i] = g.System/3 + exponential(r, g.System*2/3)
	}
	z := newZipf(g.Tenants, tenantSkew)
	t := &Trace{Name: "tenants", BlockTokens: GeneratedBlock}
	at := 0.0
	for i := range g.Conversations {
		at += r.ExpFloat64() / g.Rate
		who := z.draw(r)
		c := Conversation{Name: fmt.Sprint("chat ", i+1), Tenant: fmt.Sprint("tenant ", who+1), Start: at}
		var w writer
		w.append(mix(base, uint64(who)+1), system[who])
		own := mix(base, uint64(i+1)<<32)
		for range 1 + int(r.ExpFloat64()*float64(g.Turns-1)+0.5) {
			w.append(own, exponential(r, 250))
			output := exponential(r, 250)
			c.Requests = append(c.Requests, w.request(output, r.ExpFloat64()*g.Think))
			w.append(own, output)
		}
		t.Conversations = append(t.Conversations, c)
	}
	return t
}

// Waves describes bursts of requests that arrive at once and have all but their end in
// common, such as samples of one prompt or the workers of one plan.
type Waves struct {
	Waves    int     // default 40
	Siblings int     // requests of one wave; default 64
	Period   float64 // seconds between waves; default 10
	Prompt   int     // tokens that the siblings share; default 6,000
	Prompts  int     // distinct shared prompts, used in turn; default 4
}

// Generate returns the workload. The same seed gives the same one.
func (g Waves) Generate(seed uint64) *Trace {
	def(&g.Waves, 40)
	def(&g.Siblings, 64)
	def(&g.Prompt, 6000)
	def(&g.Prompts, 4)
	def(&g.Period, 10)
	r := rand.New(rand.NewPCG(seed, 37))
	base := hashName(fmt.Sprint("waves ", seed))
	t := &Trace{Name: "waves", BlockTokens: GeneratedBlock}
	for i := range g.Waves {
		begin := (float64(i) + 0.3*r.Float64()) * g.Period
		for k := range g.Siblings {
			var w writer
			w.append(mix(base, uint64(i%g.Prompts)), g.Prompt)
			w.append(mix(base, uint64(i*g.Siblings+k+1)<<20), exponential(r, 120))
			t.Conversations = append(t.Conversations, Conversation{Name: fmt.Sprintf("wave %d, sibling %d", i+1, k+1),
				Start: begin + 0.02*r.Float64(), Requests: []Request{w.request(50+r.IntN(300), 0)}})
		}
	}
	t.sort()
	return t
}

// def sets a number that is 0.
func def[T int | float64](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}
