package fleet

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Hold takes the endpoint at a URL out of service as far as hold says, in all
// pools that have it, and returns in how many. It lasts until another Hold, or
// until the endpoint is removed. HoldNone also gives back the isolation that an
// answer revoked.
func (f *Fleet) Hold(url string, hold endpoint.Hold) (pools int) {
	url = strings.TrimRight(url, "/")
	snap := f.cfg.Store.Load()
	for id := range snap.N {
		info := snap.Info(endpoint.ID(id))
		if info != nil && info.URL == url && f.cfg.Store.Update(endpoint.ID(id), func(s *endpoint.State) { s.Held = hold }) {
			pools++
			if w := f.watchers.Watcher(endpoint.ID(id)); w != nil && hold == endpoint.HoldNone {
				w.Readmit()
			}
		}
	}
	return pools
}
