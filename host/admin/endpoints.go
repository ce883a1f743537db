package admin

import "context"

// Holder takes endpoints out of service by hand, and back.
type Holder interface {
	// Hold applies verb (cordon: no conversations that are new to it; drain: no
	// further requests; uncordon: serve) to the endpoint of a URL, in all pools that
	// have it. An unknown one is ErrNotFound. It lasts until uncordon, or until the
	// router ends.
	Hold(ctx context.Context, url, verb string) (*HoldResult, error)
}
