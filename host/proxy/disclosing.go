package proxy

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// Clients must not learn about the engine, or about a proxy in front of it, from
// the head of an answer: which endpoint it was, how long its parts took, where else
// it can be reached. Its cookies would be sent back to no engine.

// disclosingFields are such fields, beside those that are dropped from requests.
var disclosingFields = map[string]bool{
	"alt-svc": true, "content-location": true, "endpoint-load-metrics": true, "link": true, "location": true,
	"server-timing": true,
	"set-cookie":    true, "set-cookie2": true, "x-cache": true, "x-host": true, "x-hostname": true, "x-node": true,
	"x-pod":       true,
	"x-served-by": true, "x-server": true,
}

var disclosingPrefixes = append([]string{"x-backend", "x-cache-", "x-endpoint", "x-inference-", "x-instance", "x-node-",
	"x-pod-", "x-upstream"}, droppedPrefixes...)

var disclosingNames = newNameList(disclosingPrefixes, disclosingFields, dropped)

// disclosing reports whether a field of an answer's head is of that kind.
func disclosing(name []byte) bool {
	if !disclosingNames.may(name) {
		return false
	}
	var buf [64]byte
	low, _ := lowDashed(&buf, name)
	return disclosingNames.has(low)
}

// stripDisclosing removes the disclosing fields from h, which was read from head.
func stripDisclosing(h *fasthttp.ResponseHeader, head []byte) {
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if name, _, ok := bytes.Cut(line, colon); ok && disclosing(name) {
			h.DelBytes(name)
		}
	}
}
