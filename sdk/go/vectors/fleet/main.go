// Package main is a plugin with the experimental roles; it reads all of a fleet and answers with what it
// read, so that a test can see that both sides agree about the layout.
package main

import (
	"errors"
	"strconv"

	kvasir "github.com/kvasir-router/kvasir/sdk/go"
)

func init() {
	kvasir.Autoscale("gofleet", func(f *kvasir.Fleet) (kvasir.Size, error) {
		if f.Pools() == 0 {
			return kvasir.Size{}, kvasir.ErrAbstain
		}
		if f.Proposed() == 999 {
			return kvasir.Size{}, errors.New("too many")
		}
		s := kvasir.Size{Desired: f.Proposed() + 1, HoldMS: f.ColdMS(), TTLMS: float64(f.Now()), Pools: []int{-1}}
		sum, node := 0.0, 0
		for i := range f.Nodes() {
			n := f.Node(i)
			sum += n.Heat + n.AgeMS + n.OldestMS + float64(n.Inflight+n.Sessions+n.Drain+n.Pool)
			if n.Failing() && !n.Ready() {
				s.Victims, node = append(s.Victims, i), i
			}
		}
		for i := range f.Pools() {
			p := f.Pool(i)
			sum += float64(p.Min+p.Max+p.Ready+p.Pending+p.Draining+p.Failing+p.Outstanding+p.First+p.Nodes) + p.Price + p.ColdMS
			if p.Spot() && p.Blocked() {
				s.Pools = append(s.Pools, int(p.Max))
			}
		}
		for col := range int(kvasir.NumScaleSamples) {
			for _, x := range f.Samples(col) {
				sum += float64(x)
			}
		}
		rate, lead := f.Work()
		sum += rate + lead + float64(f.Wish()+f.Window())
		s.Reason = f.PoolName(f.Pools()-1) + " " + f.NodeName(node) + " " + strconv.FormatFloat(sum, 'f', -1, 64)
		return s, nil
	})
}

func init() {
	kvasir.BackendParse("gofleet", func(text []byte, f kvasir.Figures) error {
		switch {
		case len(text) == 0:
			return kvasir.ErrAbstain
		case text[0] == '?':
			return kvasir.ErrUnsupported
		}
		f.Add(kvasir.FigureRunning, float64(len(text)))
		f.Add(kvasir.FigureKVUsage, float64(text[0])/256)
		return nil
	})
	kvasir.Discover("gofleet", func(doc []byte) (string, error) {
		if len(doc) > 1000 {
			return "", kvasir.ErrUnsupported
		}
		return "10.0.0.1:1\n" + string(doc), nil
	})
}

func main() {}
