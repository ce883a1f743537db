package chat_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"os"
	"path/filepath"
)

// prose returns English-like text of about n bytes.
func prose(r *rand.Rand, n int) string {
	words := strings.Fields("the of and a to in is was he for it with as his on be at by had not are but from or " +
		"have an they which one you were her all she there would their we him been has when who will more no if out so " +
		"said what up its about into than them can only other new some could time these two may then do first any my " +
		"now such like our over man me even most made after also did many before must through back years where much " +
		"your way well down should because each just those people mister how too little state good very make world " +
		"still own see men work long get here between both life being under never day same another know while last " +
		"might us great old year off come since against go came right used take three")
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		switch r.IntN(12) {
		case 0:
			b.WriteString(", ")
		case 1:
			b.WriteString(".\n")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()[:n]
}

// growing returns a body of about 100k tokens in 82 messages and the same
// conversation without its last turn.
func growing(seed uint64) (before, after []byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	ms := []message{{"system", prose(r, 2000)}}
	for range 40 {
		ms = append(ms, message{"user", prose(r, 5000)}, message{"assistant", prose(r, 5000)})
	}
	ms = append(ms, message{"user", prose(r, 1000)})
	body := func(ms []message) []byte {
		b, err := json.Marshal(map[string]any{"model": "m", "messages": ms, "stream": true, "temperature": 0.7})
		if err != nil {
			panic(err)
		}
		return b
	}
	return body(ms[:len(ms)-2]), body(ms)
}

// cachedModel returns a real tokenizer with its template, if make deps has fetched it.
func cachedModel(tb testing.TB, name string, set func(*chat.Config)) *chat.Model {
	tb.Helper()
	dir := filepath.Join(testdeps.Cache(tb), "tokenizers", name)
	if _, err := os.Stat(dir); err != nil {
		tb.Fatalf("no tokenizer %s, run make deps: %v", name, err)
	}
	enc, err := bpe.Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := chat.Config{Files: os.DirFS(dir), Encoder: enc, CacheIdentity: name, Now: now, CheckEvery: -1}
	if set != nil {
		set(&cfg)
	}
	m, err := chat.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// BenchmarkBlocks computes the block hashes of a conversation of 100k tokens in 82
// messages from its body: warm, if only the last turn (6 KB) is new; cold, if all
// of it is new; same, if nothing is new.
func BenchmarkBlocks(b *testing.B) {
	m := cachedModel(b, "qwen3", nil)
	q := &tokenizer.Query{Sizes: []int{16}}
	var p tokenizer.Prompt
	var r llmapi.Request
	blocks := func(b *testing.B, body []byte) {
		if err := r.Scan(llmapi.OpChat, body); err != nil {
			b.Fatal(err)
		}
		if err := m.Blocks(&r, q, &p); err != nil || !p.Exact {
			b.Fatal(err, p.Reason)
		}
	}
	before, after := growing(1)
	for _, c := range []string{"warm", "cold", "same"} {
		b.Run(c, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(after)))
			blocks(b, after)
			for b.Loop() {
				if c != "same" {
					b.StopTimer()
					m.Drop()
					if c == "warm" {
						blocks(b, before)
					}
					b.StartTimer()
				}
				blocks(b, after)
			}
			b.ReportMetric(float64(p.Tokens), "tokens")
		})
	}
}

// BenchmarkBlocks_small computes the block hashes of a body of 1 KB: same, if it was
// seen before; new, if its last message, of 200 bytes, is new.
func BenchmarkBlocks_small(b *testing.B) {
	m := cachedModel(b, "qwen3", nil)
	q := &tokenizer.Query{Sizes: []int{16}}
	var p tokenizer.Prompt
	var r llmapi.Request
	rnd := rand.New(rand.NewPCG(3, 3))
	system := prose(rnd, 700)
	for _, c := range []string{"same", "new"} {
		b.Run(c, func(b *testing.B) {
			bodies := make([][]byte, 1)
			if c == "new" {
				bodies = make([][]byte, 20000)
			}
			for i := range bodies {
				body, err := json.Marshal(map[string]any{"model": "m", "messages": []map[string]string{
					{"role": "system", "content": system}, {"role": "user", "content": prose(rnd, 200)}}})
				if err != nil {
					b.Fatal(err)
				}
				bodies[i] = body
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := r.Scan(llmapi.OpChat, bodies[i%len(bodies)]); err != nil {
					b.Fatal(err)
				}
				if err := m.Blocks(&r, q, &p); err != nil || !p.Exact {
					b.Fatal(err, p.Reason)
				}
				i++
			}
		})
	}
}
