// Command prefixfirst is a plugin that lets the longest match win until a queue
// builds up there.
package main

import kvasir "github.com/kvasir-router/kvasir/sdk/go"

func init() {
	kvasir.Version("1.0.0")
	kvasir.Score("prefixfirst", []string{"matched_ratio", "waiting"}, score, kvasir.Terms("hit", "queue"))
}

func score(b *kvasir.Batch) error {
	hit, q, out := b.F32(0), b.F32(1), b.Scores()
	for i := range out {
		out[i] = 2*hit[i] - q[i]/(q[i]+4)
	}
	if b.Explain() {
		hits, queue := b.Term(0), b.Term(1)
		for i := range out {
			hits[i], queue[i] = 2*hit[i], 0-q[i]/(q[i]+4)
		}
	}
	return nil
}

func main() {}
