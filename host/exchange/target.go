package exchange

import (
	"crypto/tls"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Target is one endpoint and how to speak to it.
type Target struct {
	Addr          string      // host:port to dial
	Host          string      // value of the Host header; "" = Addr
	Authorization string      // whole value of the Authorization header; "" = none; never logged
	TLS           *tls.Config // spoken with the endpoint; nil = none
	Rewrite       llmapi.Rewrite
	Timeouts      Timeouts
}
