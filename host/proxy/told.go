package proxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// What an engine, or a proxy before it, tells of itself in the head of an answer
// is not for clients: which endpoint it was, how long its parts took, where else it
// can be reached, and cookies that would come back to nobody.

// telling are such fields beside those that are dropped from requests.
var telling = map[string]bool{
	"alt-svc": true, "content-location": true, "endpoint-load-metrics": true, "link": true, "location": true, "server-timing": true,
	"set-cookie": true, "set-cookie2": true, "x-cache": true, "x-host": true, "x-hostname": true, "x-node": true, "x-pod": true,
	"x-served-by": true, "x-server": true,
}

var tellingPrefixes = append([]string{"x-backend", "x-cache-", "x-endpoint", "x-inference-", "x-instance", "x-node-", "x-pod-", "x-upstream"}, droppedPrefixes...)

// tells reports whether a field of an answer's head is of that kind.
func tells(name []byte) bool {
	var buf [64]byte
	low, _ := lowDashed(&buf, name)
	if telling[string(low)] || dropped[string(low)] {
		return true
	}
	for _, p := range tellingPrefixes {
		if len(low) >= len(p) && string(low[:len(p)]) == p {
			return true
		}
	}
	return false
}

// stripTold removes from h what tells of the engine. head is what h was read from.
func stripTold(h *fasthttp.ResponseHeader, head []byte) {
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if name, _, ok := bytes.Cut(line, colon); ok && tells(name) {
			h.DelBytes(name)
		}
	}
}
