// Command roundrobin is a plugin that spreads requests over the candidates
// without looking at them. Scores are a function of the batch, so the turn comes
// from the seed: the candidate whose endpoint hashes highest with it. In the mean
// every endpoint gets the same share, and adding one moves only its share.
package main

import kvasir "github.com/kvasir-router/kvasir/sdk/go"

func init() {
	kvasir.Version("1.0.0")
	kvasir.Score("roundrobin", []string{"endpoint_id"}, func(b *kvasir.Batch) error {
		id, out, seed := b.U32(0), b.Scores(), b.Seed()
		for i := range out {
			out[i] = float32(uint32(mix(seed^mix(uint64(id[i])))>>40)) / (1 << 24) // 24 bits are exact in float32
		}
		return nil
	})
}

// mix is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014).
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func main() {}
