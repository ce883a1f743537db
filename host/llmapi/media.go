package llmapi

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
)

// vLLM caches a processed image, video or sound under the name that its part of the
// content has ("uuid"). A later part with the same name and no media refers to the
// cached one (docs/features/multimodal_inputs.md, cached inputs). The cache salt is
// not part of that key: a client that knows or guesses a name can use another
// tenant's image, or replace it. So the router replaces each name with a keyed hash
// of it, whose key is the salt of the namespace.

// uuidKey is the member that names media.
const uuidKey = "uuid"

// media replaces the names of media in m, a list of messages or items. Names are
// members of the elements of a list (usually content) in a message.
func (e *editor) media(m *Member) {
	b := e.r.Body
	if e.rw.Salt == "" || fields[m.field].in&e.r.Op.set() == 0 || !m.media {
		return
	}
	eachElement(b, m.Value.Start, func(message int) {
		eachMember(b, message, func(_, list Span) {
			eachElement(b, list.Start, func(part int) { eachMember(b, part, e.mediaName) })
		})
	})
}

// mediaName replaces the value of a member if that is a name of media.
func (e *editor) mediaName(key, value Span) {
	b := e.r.Body
	if b[value.Start] == 'n' || !e.isUUID(b[key.Start:key.End]) {
		return
	}
	h := hmac.New(sha256.New, []byte(e.rw.Salt))
	h.Write(b[value.Start:value.End])
	e.replace(value, e.text(`"`+base64.RawURLEncoding.EncodeToString(h.Sum(nil))+`"`))
}

func (e *editor) isUUID(key []byte) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == uuidKey
	}
	text, ok := jsonscan.Unquote(nil, key)
	return ok && string(text) == uuidKey
}

// eachElement calls f with the offset of each element of the array at i. Another
// value has no elements. b must have been scanned.
func eachElement(b []byte, i int, f func(at int)) {
	jsonscan.EachElement(b, i, func(at int) int {
		f(at)
		return jsonscan.End(b, at)
	})
}

// eachMember calls f with the key and the value of each member of the object at i.
// Another value has no members. b must have been scanned.
func eachMember(b []byte, i int, f func(key, value Span)) {
	jsonscan.Each(b, i, func(key, keyEnd, start, end int) bool {
		f(Span{key, keyEnd}, Span{start, end})
		return true
	})
}
