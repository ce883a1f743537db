package simengine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// peer is a minimal ZMTP 3.0 client.
type peer struct {
	c  net.Conn
	br *bufio.Reader
}

func (r *rig) dial(addr, socket string) *peer {
	r.t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	p := &peer{c, bufio.NewReader(c)}
	if err := handshake(c, p.br, socket); err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) subscribe(topic string) *peer {
	r.t.Helper()
	p := r.dial(r.pub, "SUB")
	p.send(r.t, append([]byte{1}, topic...))
	return p
}

func (p *peer) send(t *testing.T, frames ...[]byte) {
	t.Helper()
	if _, err := p.c.Write(appendMessage(nil, frames...)); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) read(t *testing.T) [][]byte {
	t.Helper()
	p.c.SetReadDeadline(time.Now().Add(10 * time.Second))
	frames, _, err := readMessage(p.br)
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

// gotBatch is a batch as it was received.
type gotBatch struct {
	seq     uint64
	payload []byte
}

func (r *rig) replayFrom(seq uint64) (out []gotBatch) {
	r.t.Helper()
	p := r.dial(r.replay, "DEALER")
	p.send(r.t, nil, sequence(seq))
	for {
		f := p.read(r.t)
		if len(f) != 4 || len(f[0]) != 0 {
			r.t.Fatalf("replay message %q", f)
		}
		n := binary.BigEndian.Uint64(f[2])
		if n == replayEnd {
			if len(f[1]) != 0 || len(f[3]) != 0 {
				r.t.Fatalf("end message %q", f)
			}
			return out
		}
		if string(f[1]) != "kv" {
			r.t.Fatalf("topic %q", f[1])
		}
		out = append(out, gotBatch{n, f[3]})
	}
}

// view replays events from their bytes; it is the slow decoder that the tests
// of this package trust (checked against msgspec in TestPython).
type view struct {
	blocks map[uint64]bool
	stores []any // BlockStored events
}

func (v *view) apply(t *testing.T, payload []byte) {
	t.Helper()
	batch := decode(t, payload).([]any)
	if len(batch) != 3 || batch[2] != uint64(0) {
		t.Fatalf("batch %v", batch)
	}
	for _, raw := range batch[1].([]any) {
		var kind, hashes any
		if e, ok := raw.(map[string]any); ok {
			kind, hashes = e["type"], e["block_hashes"]
		} else {
			a := raw.([]any)
			if kind = a[0]; len(a) > 1 {
				hashes = a[1]
			}
		}
		switch kind {
		case "BlockStored":
			v.stores = append(v.stores, raw)
			for _, h := range hashes.([]any) {
				if v.blocks[h.(uint64)] {
					t.Fatalf("stored twice: %v", h)
				}
				v.blocks[h.(uint64)] = true
			}
		case "BlockRemoved":
			for _, h := range hashes.([]any) {
				if !v.blocks[h.(uint64)] {
					t.Fatalf("removed, not stored: %v", h)
				}
				delete(v.blocks, h.(uint64))
			}
		case "AllBlocksCleared":
			clear(v.blocks)
		default:
			t.Fatalf("event %v", raw)
		}
	}
}

func (v *view) equal(t *testing.T, r *rig) {
	t.Helper()
	r.mu.Lock()
	held := r.model.Hashes(nil)
	r.mu.Unlock()
	if len(held) != len(v.blocks) {
		t.Fatalf("events say %d blocks, the cache holds %d", len(v.blocks), len(held))
	}
	for _, h := range held {
		if !v.blocks[h] {
			t.Fatalf("no event of block %d", h)
		}
	}
}

// conversation posts a few chats that share prefixes and overflow the cache.
func (r *rig) conversation(n int) {
	r.t.Helper()
	for i := range n {
		body := fmt.Sprintf(`{"messages":[{"role":"system","content":"you are %d aaa bba cca dda eea"},{"role":"user",`+
			`"content":"question %d"}],"max_tokens":9}`, i%3, i)
		if i%4 == 0 {
			body = with(body, `"cache_salt":"tenant-a"`)
		}
		r.mustPost("/v1/chat/completions", body)
	}
}

// TestEvents_reproduceCache: live events, and the replay of all, give exactly
// the blocks held.
func TestEvents_reproduceCache(t *testing.T) {
	for _, arrays := range []bool{false, true} {
		t.Run(fmt.Sprint("arrays=", arrays), func(t *testing.T) {
			r := run(t, func(c *Config) { c.CacheBlocks = 40; c.ArrayEvents = arrays })
			sub := r.subscribe("k")
			deaf := r.subscribe("other")
			until(t, "subscribed", func() bool { return r.Engine.pub.subscribers() == 2 })
			r.conversation(40)
			if !r.Reset() {
				t.Fatal("in use")
			}
			r.conversation(20)
			r.mu.Lock()
			evicted := r.model.Stats().BlocksEvicted
			r.mu.Unlock()
			if evicted < 50 {
				t.Fatalf("only %d evictions", evicted)
			}
			all := r.replayFrom(0)
			live, again := &view{blocks: map[uint64]bool{}}, &view{blocks: map[uint64]bool{}}
			for i, b := range all {
				again.apply(t, b.payload)
				f := sub.read(t)
				if len(f) != 3 || string(f[0]) != "kv" || binary.BigEndian.Uint64(f[1]) != uint64(i) || b.seq != uint64(i) {
					t.Fatalf("batch %d: %q", i, f[:2])
				}
				if !bytes.Equal(f[2], b.payload) {
					t.Fatalf("batch %d differs in replay", i)
				}
				live.apply(t, f[2])
			}
			live.equal(t, r)
			again.equal(t, r)
			deaf.c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := deaf.br.ReadByte(); err == nil {
				t.Fatal("a batch of another topic")
			}
		})
	}
}

// TestEvents_fields checks one event member by member, and its hashes.
func TestEvents_fields(t *testing.T) {
	r := run(t, func(c *Config) { c.Adapters = []string{"x", "tuned"} })
	body := `{"model":"tuned","prompt":"aaa bba cca dda eea ffa gga hha iia jja","max_tokens":2,"ignore_eos":true,` +
		`"cache_salt":"s"}`
	r.mustPost("/v1/completions", body)
	ids, _ := r.toy.TextTokens("aaa bba cca dda eea ffa gga hha iia jja")
	v := &view{blocks: map[uint64]bool{}}
	for _, b := range r.replayFrom(0) {
		v.apply(t, b.payload)
	}
	e := v.stores[0].(map[string]any)
	var h hasher
	hashes := h.chain(nil, ids[:8], 4, "tuned", "s")
	want := map[string]any{
		"type": "BlockStored", "block_hashes": []any{hashes[0], hashes[1]}, "parent_block_hash": nil,
		"block_size": uint64(4), "lora_id": uint64(2), "medium": "GPU", "lora_name": "tuned",
		"extra_keys": []any{[]any{"tuned", "s"}, []any{"tuned"}}, "group_idx": uint64(0),
		"kv_cache_spec_kind": "full_attention",
	}
	var tokens []any
	for _, id := range ids[:8] {
		tokens = append(tokens, uint64(id))
	}
	want["token_ids"] = tokens
	if got, want := fmt.Sprint(e), fmt.Sprint(want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(v.stores) != 1 {
		t.Errorf("%d events: 11 computed tokens are two blocks of 4", len(v.stores))
	}
	r.mustPost("/v1/completions", strings.Replace(body, `"max_tokens":2`, `"max_tokens":3`, 1))
	for _, b := range r.replayFrom(1) {
		v.apply(t, b.payload)
	}
	if len(v.stores) != 2 {
		t.Fatalf("%d events", len(v.stores))
	}
	e = v.stores[1].(map[string]any)
	if e["parent_block_hash"] != hashes[1] || fmt.Sprint(e["extra_keys"]) != "[[tuned]]" {
		t.Errorf("second event %v", e)
	}
}

// TestEvents_golden compares a batch with the bytes a vLLM 0.32.0 sent for it,
// as far as this engine's choice of members goes.
func TestEvents_golden(t *testing.T) {
	e := eventEncoder{blockTokens: 2}
	e.store(&stored{hashes: []uint64{1 << 63, 7}, tokens: []uint32{1, 300, 70000, 3}, salt: "abc"})
	e.remove(9)
	e.cleared()
	got := hex.EncodeToString(e.batch(time.Unix(1, 5e8)))
	want := "93cb3ff8000000000000" + "93" +
		"8ba474797065ab426c6f636b53746f726564" +
		"ac626c6f636b5f68617368657392cf800000000000000007" +
		"b1706172656e745f626c6f636b5f68617368c0" +
		"a9746f6b656e5f6964739401cd012cce0001117003" +
		"aa626c6f636b5f73697a6502" + "a76c6f72615f6964c0" + "a66d656469756da3475055" + "a96c6f72615f6e616d65c0" +
		"aa65787472615f6b6579739291a3616263c0" + "a967726f75705f69647800" +
		"b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e" +
		"84a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739109a66d656469756da3475055a967726f75705f69647800" +
		"81a474797065b0416c6c426c6f636b73436c6561726564" + "00"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEvents_buffer: only the last batches can be replayed, from where asked.
func TestEvents_buffer(t *testing.T) {
	r := run(t, func(c *Config) { c.BufferSteps = 5 })
	r.conversation(20)
	r.mu.Lock()
	next := r.Engine.pub.seq
	r.mu.Unlock()
	seqs := func(from uint64) (out []uint64) {
		for _, b := range r.replayFrom(from) {
			out = append(out, b.seq)
		}
		return out
	}
	if got, want := seqs(0), []uint64{next - 5, next - 4, next - 3, next - 2, next - 1}; !slices.Equal(got, want) {
		t.Errorf("from 0: %d, want %d", got, want)
	}
	if got, want := seqs(next-2), []uint64{next - 2, next - 1}; !slices.Equal(got, want) {
		t.Errorf("from %d: %d, want %d", next-2, got, want)
	}
	if got := seqs(next); len(got) != 0 {
		t.Errorf("from the future: %d", got)
	}
}

// TestEvents_dropped: dropped batches leave a gap, which replay fills.
func TestEvents_dropped(t *testing.T) {
	r := run(t, nil)
	sub := r.subscribe("")
	until(t, "subscribed", func() bool { return r.Engine.pub.subscribers() == 1 })
	r.mustPost("/v1/completions", `{"prompt":[1,2,3,4],"max_tokens":1}`)
	r.faultsSet(`{"drop_batches":2}`)
	r.mustPost("/v1/completions", `{"prompt":[2,2,3,4],"max_tokens":1}`)
	r.mustPost("/v1/completions", `{"prompt":[3,2,3,4],"max_tokens":1}`)
	r.mustPost("/v1/completions", `{"prompt":[4,2,3,4],"max_tokens":1}`)
	for _, want := range []uint64{0, 3} {
		if got := binary.BigEndian.Uint64(sub.read(t)[1]); got != want {
			t.Fatalf("seq %d, want %d", got, want)
		}
	}
	if n := len(r.replayFrom(0)); n != 4 {
		t.Fatalf("%d batches replayed", n)
	}
	r.faultsSet(`{"drop_share":1,"drop_replay":true}`)
	r.mustPost("/v1/completions", `{"prompt":[5,2,3,4],"max_tokens":1}`)
	if n := len(r.replayFrom(0)); n != 4 {
		t.Fatalf("%d batches replayed, one was lost", n)
	}
	r.faultsSet(`{"drop_share":0}`)
	r.mustPost("/v1/completions", `{"prompt":[6,2,3,4],"max_tokens":1}`)
	if got := binary.BigEndian.Uint64(sub.read(t)[1]); got != 5 {
		t.Fatalf("seq %d, want 5", got)
	}
}

func TestEvents_scrambled(t *testing.T) {
	r := run(t, nil)
	r.faultsSet(`{"scramble_hashes":true,"scramble_tokens":true}`)
	r.mustPost("/v1/completions", `{"prompt":[1,2,3,4],"max_tokens":1}`)
	v := &view{blocks: map[uint64]bool{}}
	v.apply(t, r.replayFrom(0)[0].payload)
	var h hasher
	if v.blocks[h.chain(nil, []uint32{1, 2, 3, 4}, 4, "", "")[0]] {
		t.Error("the event has the hash")
	}
	if tokens := v.stores[0].(map[string]any)["token_ids"]; fmt.Sprint(tokens) == "[1 2 3 4]" || len(tokens.([]any)) != 4 {
		t.Errorf("tokens %v", tokens)
	}
}

// TestPublisher_slow: a subscriber that does not read loses the newest batches
// and hinders no one.
func TestPublisher_slow(t *testing.T) {
	p := &publisher{topic: []byte("kv"), hwm: 3, steps: 100, subs: map[*subscriber]struct{}{}}
	s := newSubscriber()
	s.topics = [][]byte{nil}
	p.subs[s] = struct{}{}
	for range 10 {
		p.publish([]byte("batch"), true, true)
	}
	if len(s.queue) != 3 || p.dropped != 7 || len(p.kept) != 10 {
		t.Fatalf("%d queued, %d dropped", len(s.queue), p.dropped)
	}
	queued := p.take(s, nil)
	if len(s.queue) != 0 {
		t.Fatal("taken twice")
	}
	f, _, err := readMessage(bufio.NewReader(bytes.NewReader(queued[0])))
	if err != nil || binary.BigEndian.Uint64(f[1]) != 0 {
		t.Fatal("the oldest was dropped")
	}
}

// TestPublisher_burst: a subscriber that reads gets everything in order.
func TestPublisher_burst(t *testing.T) {
	r := run(t, nil)
	sub := r.subscribe("kv")
	until(t, "subscribed", func() bool { return r.Engine.pub.subscribers() == 1 })
	const n = 12_000
	payload := bytes.Repeat([]byte("x"), 400)
	for range n {
		r.Engine.pub.publish(payload, true, true)
	}
	for i := range uint64(n) {
		if f := sub.read(t); binary.BigEndian.Uint64(f[1]) != i || len(f[2]) != len(payload) {
			t.Fatalf("batch %d: seq %d", i, binary.BigEndian.Uint64(f[1]))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Engine.pub.dropped != 0 || len(r.Engine.pub.kept) != 10_000 {
		t.Fatalf("%d dropped, %d kept", r.Engine.pub.dropped, len(r.Engine.pub.kept))
	}
}

// TestReplay_old: the layout without topic, and requests that are no requests.
func TestReplay_old(t *testing.T) {
	r := run(t, func(c *Config) { c.OldReplay = true })
	r.mustPost("/v1/completions", `{"prompt":[1,2,3,4],"max_tokens":1}`)
	p := r.dial(r.replay, "DEALER")
	p.send(t, []byte("x"), sequence(0))
	p.send(t, sequence(0))
	p.send(t, nil, []byte("short"))
	p.send(t, nil, sequence(0))
	if f := p.read(t); len(f) != 3 || binary.BigEndian.Uint64(f[1]) != 0 || len(f[2]) == 0 {
		t.Fatalf("%q", f)
	}
	if f := p.read(t); len(f) != 3 || binary.BigEndian.Uint64(f[1]) != replayEnd || len(f[2]) != 0 {
		t.Fatalf("%q", f)
	}
}
