package plugincheck

import (
	"errors"
	"fmt"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// answered reports whether a call of an experimental role ended without a fault.
func answered(err error) bool {
	return err == nil || errors.Is(err, wasm.ErrAbstain) || errors.Is(err, wasm.ErrUnsupported)
}

// fleets are numbers of pools, endpoints of each, and samples.
var fleets = [][3]int{{1, 0, 0}, {1, 1, 1}, {2, 3, 17}, {3, 40, 60}, {16, 60, 60}, {1, 0, 0}}

// checkAutoscale calls x_autoscale with empty, small and large fleets.
func checkAutoscale(p *wasm.Plugin) error {
	for i, f := range fleets {
		if _, err := p.Autoscale(smokeFleet(f[0], f[1], f[2], uint32(i))); !answered(err) {
			return fmt.Errorf("%d pools of %d endpoints, %d samples: %w", f[0], f[1], f[2], err)
		}
	}
	return nil
}

func smokeFleet(pools, each, samples int, seed uint32) *wasm.ScaleView {
	v := &wasm.ScaleView{NowMS: 1.7e12 + float64(seed)*3.6e6}
	for i := range pools {
		v.Pools = append(v.Pools, wasm.ScalePool{
			Name: fmt.Sprint("pool-", i), Min: uint32(i % 2), Max: uint32(each + 8), Ready: uint32(each), Pending: seed % 3,
			Spot: i%2 == 1, Blocked: i%3 == 2, Price: float64(i), ColdMS: 60_000,
		})
		for k := range each {
			v.Nodes = append(v.Nodes, wasm.ScaleNode{Name: fmt.Sprintf("node-%d-%d", i, k), Pool: uint32(i), Ready: k%4 != 3,
				Drain: uint32(k % 3), Inflight: uint32(k), Heat: float64(1000 * k), AgeMS: 1e6})
		}
	}
	for k := range v.Samples {
		for s := range samples {
			v.Samples[k] = append(v.Samples[k], float32(s%7))
		}
	}
	n := uint32(pools * each)
	v.Proposal = wasm.ScaleProposal{Now: n, Desired: n + 1, Wish: n + 2, Window: n + 2, Rate: float64(n) / 2,
		ColdMS: 60_000}
	return v
}

// checkDocuments passes invalid documents: empty, text, noise, the largest. A guest
// returns status 3 for a document that it cannot parse: one engine with invalid output
// must not put the parser of the others into quarantine.
func checkDocuments(call func(doc []byte) error) error {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(i * 7919 >> 3)
	}
	for _, doc := range [][]byte{nil, make([]byte, abi.MaxDocument), noise, []byte("a_metric{label=\"x\"} 1\n")} {
		if err := call(doc); !answered(err) {
			return fmt.Errorf("a document of %d bytes: %w", len(doc), err)
		}
	}
	return nil
}
