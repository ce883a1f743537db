// Command goguest uses every part of the Go SDK. TestGo_guest checks its results.
package main

import (
	"errors"
	"strconv"

	kvasir "github.com/kvasir-router/kvasir/sdk/go"
	"github.com/kvasir-router/kvasir/sdk/go/hostlog"
	"github.com/kvasir-router/kvasir/sdk/go/kv"
	"github.com/kvasir-router/kvasir/sdk/go/metrics"
)

const name = "goguest"

var weight float32 = 1

func init() {
	kvasir.Configure(func(config []byte) error {
		if len(config) > 2 {
			w, err := strconv.ParseFloat(string(config), 32)
			if err != nil {
				return err
			}
			weight = float32(w)
		}
		return nil
	})
	kvasir.Score(name, []string{"goguest/seen", "waiting"}, score, kvasir.Request("objective"), kvasir.Terms("queue"))
	kvasir.Filter(name, []string{"label/gpu=h100?"}, []string{"not an h100"}, filter)
	kvasir.Pick(name, []string{"rtt_ms"}, pick)
	kvasir.Observe(name, []string{"endpoint_row"}, []kvasir.Column{{Name: "goguest/seen"}}, observe)
}

func score(b *kvasir.Batch) error {
	if b.N() == 13 {
		return errors.New("thirteen")
	}
	if b.N() == 14 {
		return kvasir.ErrAbstain
	}
	seen, waiting, out := b.F32(0), b.F32(1), b.Scores()
	for i := range out {
		out[i] = seen[i]*1000 - weight*waiting[i] - float32(b.ReqU32(0))
	}
	if b.Explain() {
		t := b.Term(0)
		for i := range t {
			t[i] = -weight * waiting[i]
		}
	}
	return nil
}

func filter(b *kvasir.Batch) error {
	gpu, drops := b.F32(0), b.Drops()
	for i := range drops {
		drops[i] = 0
		if gpu[i] == 0 && i%2 == 1 {
			drops[i] = 1
		}
	}
	return nil
}

// pick takes the last allowed candidate.
func pick(b *kvasir.Batch) error {
	for s := range b.Slots() {
		mask := b.SlotMask(s)
		best := -1
		for i := range mask {
			if mask[i] == 1 {
				best = i
			}
		}
		if best < 0 {
			b.Order(s)
			continue
		}
		b.Order(s, uint32(best))
	}
	return nil
}

// observe counts outcomes per endpoint in the key-value store.
func observe(b *kvasir.Batch) error {
	ids, out := b.Endpoints(), b.Published(0)
	for _, row := range b.U32(0) {
		key := strconv.Itoa(int(ids[row]))
		v, _ := kv.Get(key)
		n, _ := strconv.Atoi(string(v))
		n++
		if err := kv.Set(key, []byte(strconv.Itoa(n))); err != nil {
			return err
		}
		out[row] = float32(n)
		metrics.Add("outcomes", 1)
	}
	hostlog.Info("observed " + strconv.Itoa(b.N()))
	return nil
}

func main() {}
