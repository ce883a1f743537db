// Command vectors is the reference guest of abi/vectors, in Go.
package main

import (
	"errors"

	kvasir "github.com/kvasir-router/kvasir/sdk/go"
)

const name = "vectors"

func init() {
	kvasir.Filter(name, []string{"adapter_state"}, []string{"one", "two", "three"}, filter)
	kvasir.Score(name, []string{"uncached_tokens", "endpoint_id", "kv_usage"}, score,
		kvasir.Request("objective", "tenant_hash"), kvasir.Terms("a", "b"))
	kvasir.Pick(name, []string{"colocated"}, pick)
	kvasir.Observe(name, []string{"endpoint_row", "ttft_ms", "cached_tokens"},
		[]kvasir.Column{{Name: "vectors/ttft"}, {Name: "vectors/seen"}}, observe)
	kvasir.Configure(func(config []byte) error {
		if n := len(config); n < 2 || config[0] != '{' || config[n-1] != '}' {
			return errors.New("want an object")
		}
		return nil
	})
}

func filter(b *kvasir.Batch) error {
	copy(b.Drops(), b.U32(0))
	return nil
}

func score(b *kvasir.Batch) error {
	fixed := float32(b.PromptTokens()) + float32(b.MaxTokens()) + b.Priority() + float32(uint64(b.NowMS())&255) +
		float32(b.SessionHash()&0xffff) + float32(b.Seed()>>48) + float32(b.Slots())
	for k := range b.NReq() {
		fixed += float32(b.ReqU64(k) & 0xff)
	}
	out := b.Scores()
	for i := range out {
		out[i] = fixed
		for k := range b.NCols() {
			out[i] += float32(uint32(k+1) * (b.U32(k)[i] >> 16))
		}
	}
	if b.Explain() {
		first := b.F32(0)
		for t := range 2 {
			for i, x := range first {
				b.Term(t)[i] = float32(t) + x
			}
		}
	}
	return nil
}

// pick orders by summed score and own columns, by insertion.
func pick(b *kvasir.Batch) error {
	value := func(slot, i int) float32 {
		x := b.SlotScores(slot)[i]
		for k := range b.NCols() {
			x += b.F32(k)[i]
		}
		return x
	}
	for slot := range b.Slots() {
		var order []uint32
		for i, may := range b.SlotMask(slot) {
			if may != 1 {
				continue
			}
			order = append(order, uint32(i))
			for j := len(order) - 1; j > 0 && value(slot, int(order[j])) > value(slot, int(order[j-1])); j-- {
				order[j], order[j-1] = order[j-1], order[j]
			}
		}
		b.Order(slot, order...)
	}
	return nil
}

func observe(b *kvasir.Batch) error {
	ttft, seen := b.Published(0), b.Published(1)
	for i, row := range b.U32(0) {
		if ttft[row] != ttft[row] { // NaN: nothing of it yet
			ttft[row], seen[row] = 0, 0
		}
		ttft[row] += b.F32(1)[i]
		seen[row]++
	}
	return nil
}

func main() {}
