// Command scorer is a scorer in Go. It prefers the endpoint with the longest match until
// a queue builds up there.
package main

import kvasir "github.com/kvasir-router/kvasir/sdk/go"

func init() {
	kvasir.Score("scorer-go", []string{"matched_ratio", "waiting"}, func(b *kvasir.Batch) error {
		hit, q, out := b.F32(0), b.F32(1), b.Scores()
		for i := range out {
			out[i] = 2*hit[i] - q[i]/(q[i]+4)
		}
		return nil
	})
}

func main() {}
