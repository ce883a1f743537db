package proxy

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// maxFields bounds the header lines of a request.
const maxFields = 100

// kind is how a header field of a request is treated.
type kind uint8

const (
	kindPass       kind = iota // forwarded
	kindDrop                   // never forwarded
	kindConnection             // names fields of this hop
	kindAuthorization
	kindAPIKey
	kindContentType
	kindContentEncoding
	kindContentLength
	kindTransferEncoding
	kindExpect
	kindRequestID
	kindSession
	kindPriority
	kindLabel // of a hint: one of each name
	kindOrigin
	numKinds
)

// single reports whether at most one field of the kind may occur, because two
// parsers could use different ones.
func (k kind) single() bool {
	switch k {
	case kindPass, kindDrop, kindConnection, kindLabel:
		return false
	}
	return true
}

// field is one header field as the client wrote it. The slices are fasthttp's.
type field struct {
	name, value []byte
	kind        kind
}

// fields are the header fields of one request.
type fields struct {
	all []field
	one [numKinds][]byte // value of the only field of a kind, nil = none
	// labels are the values of the hints' labels, in the order of hintTable.names.
	labels [MaxHintLabels][]byte
}

var (
	errHeadLine   = llmapi.Refuse(llmapi.CodeInvalidHeader, "Malformed header line.")
	errHeadFold   = llmapi.Refuse(llmapi.CodeInvalidHeader, "Header lines may not be folded.")
	errManyFields = llmapi.Refuse(llmapi.CodeTooManyHeaders, "More than 100 header fields.")
	errFraming    = llmapi.Refuse(llmapi.CodeAmbiguousFraming, "Content-Length and Transfer-Encoding exclude each other.")
	errHost       = llmapi.Refuse(llmapi.CodeInvalidHeader, "Malformed Host header.")
)

// read splits the head again, strictly: fasthttp accepts some forms that other
// parsers read differently (bare line feeds, folded lines).
func (f *fields) read(h *fasthttp.RequestHeader, hints *hintTable) *llmapi.Error {
	f.all = f.all[:0]
	f.one, f.labels = [numKinds][]byte{}, [MaxHintLabels][]byte{}
	raw := h.RawHeaders()
	for len(raw) > 0 {
		i := bytes.IndexByte(raw, '\n')
		if i < 1 || raw[i-1] != '\r' {
			return errHeadLine
		}
		line := raw[:i-1]
		if raw = raw[i+1:]; len(line) == 0 {
			break
		}
		if len(f.all) == maxFields {
			return errManyFields
		}
		if err := f.add(line, hints); err != nil {
			return err
		}
	}
	if f.one[kindContentLength] != nil && f.one[kindTransferEncoding] != nil {
		return errFraming
	}
	if !validHost(h.Host()) {
		return errHost
	}
	return nil
}

func (f *fields) add(line []byte, hints *hintTable) *llmapi.Error {
	if line[0] == ' ' || line[0] == '\t' {
		return errHeadFold
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || !isToken(line[:colon]) || bytes.IndexByte(line, '\r') >= 0 {
		return errHeadLine
	}
	v := field{name: line[:colon], value: trimSpace(line[colon+1:])}
	v.kind = classify(v.name, hints)
	var at *[]byte
	switch {
	case v.kind.single():
		at = &f.one[v.kind]
	case v.kind == kindLabel:
		at = &f.labels[hints.labels[strings.ToLower(string(v.name))]]
	}
	if at != nil {
		if *at != nil {
			return llmapi.Refuse(llmapi.CodeDuplicateHeader, "Duplicate header field "+strings.ToLower(string(v.name))+".")
		}
		*at = v.value[:len(v.value):len(v.value)]
	}
	f.all = append(f.all, v)
	return nil
}

// hop reports whether a Connection field names the field.
func (f *fields) hop(name []byte) bool {
	for i := range f.all {
		if f.all[i].kind == kindConnection && listed(f.all[i].value, name) {
			return true
		}
	}
	return false
}

// dropped are header fields that never reach an engine: fields of this hop,
// credentials, and fields that engines, their sidecars and other routers obey.
var dropped = map[string]bool{
	"accept-encoding": true, "host": true, "http2-settings": true, "keep-alive": true,
	"proxy-connection": true, "te": true, "trailer": true, "upgrade": true,

	"api-key": true, "cookie": true, "cookie2": true, "x-auth-token": true, "x-goog-api-key": true,
	"ocp-apim-subscription-key": true, "x-amz-security-token": true,

	"forwarded": true, "via": true, "x-real-ip": true,

	"x-tenant-id": true, "x-cache-salt": true, "x-session-id": true, "endpoint-load-metrics-format": true,
}

var droppedPrefixes = []string{
	"proxy-", "x-gateway-", "x-kvasir-", "x-data-parallel-", "x-forwarded-", "x-envoy-",
	"x-prefiller-", "x-encoder-", "x-decoder-", "x-llm-d-", "x-smg-", "x-sglang-", "x-vllm-",
	"x-dynamo-", "x-worker-", "x-tenant-", "x-cache-salt-", "x-dp-rank",
}

var droppedNames = newNameList(droppedPrefixes, dropped)

// classify returns the kind of a field. Gateways in front of WSGI-like servers read
// "_" as "-", so a name with underscores is dropped unless the name with dashes
// would pass.
func classify(name []byte, hints *hintTable) kind {
	var buf [64]byte
	low, under := lowDashed(&buf, name)
	k := kindOf(low, hints)
	if under && k != kindPass {
		return kindDrop
	}
	return k
}

// lowDashed returns the beginning of a field's name in buf, in lower case and with
// dashes for underscores, and whether it had underscores.
func lowDashed(buf *[64]byte, name []byte) (low []byte, under bool) {
	n := min(len(name), len(buf))
	for i := range n {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c |= 0x20
		case c == '_':
			c, under = '-', true
		}
		buf[i] = c
	}
	return buf[:n], under
}

func kindOf(low []byte, hints *hintTable) kind {
	switch string(low) {
	case "connection":
		return kindConnection
	case "authorization":
		return kindAuthorization
	case "x-api-key":
		return kindAPIKey
	case "content-type":
		return kindContentType
	case "content-encoding":
		return kindContentEncoding
	case "content-length":
		return kindContentLength
	case "transfer-encoding":
		return kindTransferEncoding
	case "expect":
		return kindExpect
	case "x-request-id":
		return kindRequestID
	case "origin":
		return kindOrigin
	case "accept", "user-agent", "traceparent", "tracestate":
		return kindPass
	}
	switch string(low) {
	case hints.session:
		return kindSession
	case hints.priority:
		return kindPriority
	}
	if _, ok := hints.labels[string(low)]; ok {
		return kindLabel
	}
	if droppedNames.may(low) && droppedNames.has(low) {
		return kindDrop
	}
	return kindPass
}

// appendHead appends the head of the request to an engine. path is the path of the
// operation: the client's query, which may contain credentials, is not forwarded.
func (f *fields) appendHead(b []byte, t *exchange.Target, path, id string, length int) []byte {
	b = append(b, "POST "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if t.Host != "" {
		b = append(b, t.Host...)
	} else {
		b = append(b, t.Addr...)
	}
	if t.Authorization != "" {
		b = append(b, "\r\nAuthorization: "...)
		b = append(b, t.Authorization...)
	}
	b = append(b, "\r\nX-Request-Id: "...)
	b = append(b, id...)
	b = append(b, "\r\nAccept-Encoding: identity\r\n"...)
	for i := range f.all {
		v := &f.all[i]
		if v.kind != kindPass && v.kind != kindContentType || f.hop(v.name) {
			continue
		}
		b = append(b, v.name...)
		b = append(b, ": "...)
		b = append(b, v.value...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "Content-Length: "...)
	b = fasthttp.AppendUint(b, length)
	return append(b, "\r\n\r\n"...)
}

// listed reports whether a comma-separated list contains name.
func listed(list, name []byte) bool {
	for len(list) > 0 {
		t := list
		if i := bytes.IndexByte(list, ','); i >= 0 {
			t, list = list[:i], list[i+1:]
		} else {
			list = nil
		}
		if bytes.EqualFold(trimSpace(t), name) {
			return true
		}
	}
	return false
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// tokenBytes are those of RFC 9110, section 5.6.2.
var tokenBytes = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(b) > 0
}

// validHost accepts host, host:port, IPv4 and [IPv6] forms; userinfo, paths and
// lists are refused.
func validHost(h []byte) bool {
	for _, c := range h {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']' || c == '~' || c == '%':
		default:
			return false
		}
	}
	return true
}

// validID reports whether a client's request id may be passed on and logged. A
// credential in its place may not.
func validID(id []byte) bool {
	if len(id) == 0 || len(id) > 128 || secret.HasBytes(id) {
		return false
	}
	for _, c := range id {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '.' || c == '-' || c == '_' || c == ':' || c == '/' || c == '=' || c == '+':
		default:
			return false
		}
	}
	return true
}
