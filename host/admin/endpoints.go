package admin

import (
	"context"
	"net/http"
)

// Holder takes endpoints out of service by hand, and back.
type Holder interface {
	// Hold applies verb (cordon: no conversations that are new to it; drain: no
	// further requests; uncordon: serve) to the endpoint of a URL, in all pools that
	// have it. An unknown one is ErrNotFound. It lasts until uncordon, or until the
	// router ends.
	Hold(ctx context.Context, url, verb string) (*HoldResult, error)
}

// holdVerbs are the verbs of a Holder.
var holdVerbs = []string{"cordon", "drain", "uncordon"}

// hold serves POST /v1/endpoints/{verb}?endpoint=URL.
func (s *Server) hold(verb string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		url := r.URL.Query().Get("endpoint")
		s.change(w, r, deed{verb: "endpoint:" + verb, object: "endpoint/" + url}, func(ctx context.Context) (any, error) {
			return s.cfg.Holder.Hold(ctx, url, verb)
		})
	}
}
