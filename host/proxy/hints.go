package proxy

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Hints names the headers by which clients influence placement. They are read and
// not forwarded.
type Hints struct {
	Session  string // id of a session, which stays on an endpoint; default x-kvasir-session
	Priority string // requested priority class; default x-kvasir-priority
	Labels   []HintLabel
}

// HintLabel is a header whose value becomes a label of the request.
type HintLabel struct{ Label, Header string }

// MaxHintLabels bounds Hints.Labels.
const MaxHintLabels = 16

// Bounds of hints: they are part of the key of policy decisions.
const (
	maxHintPriority = 32
	maxHintLabel    = 128
)

// hintTable is Hints prepared for lookups.
type hintTable struct {
	session, priority string         // lower-case names
	labels            map[string]int // lower-case name → index in names
	names             []string       // labels, in the order of identity.Principal.Labels: by name
}

func newHintTable(h *Hints) hintTable {
	t := hintTable{session: strings.ToLower(h.Session), priority: strings.ToLower(h.Priority), labels: map[string]int{}}
	for _, l := range h.Labels {
		at := 0
		for at < len(t.names) && t.names[at] < l.Label {
			at++
		}
		t.names = append(t.names[:at], append([]string{l.Label}, t.names[at:]...)...)
	}
	for _, l := range h.Labels {
		for i, n := range t.names {
			if n == l.Label {
				t.labels[strings.ToLower(l.Header)] = i
			}
		}
	}
	return t
}

// validHint reports whether a hint's value may reach policy: letters, digits and
// ._:/- only.
func validHint(v []byte, limit int) bool {
	if len(v) > limit {
		return false
	}
	for _, c := range v {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '.' || c == '_' || c == ':' || c == '/' || c == '-':
		default:
			return false
		}
	}
	return true
}

// hints copies the client's hints to r. An empty value is no hint.
func (s *stream) hints(r *Request) *llmapi.Error {
	t := &r.Edge.hints
	r.Session, r.Priority, r.Labels = "", "", nil
	if v := s.client.fields.one[kindSession]; len(v) > 0 && len(v) <= 256 {
		r.Session = string(v)
	}
	if v := s.client.fields.one[kindPriority]; len(v) > 0 {
		if !validHint(v, maxHintPriority) {
			return badHint(t.priority, "32")
		}
		r.Priority = string(v)
	}
	for i, name := range t.names {
		v := s.client.fields.labels[i]
		if len(v) == 0 {
			continue
		}
		if !validHint(v, maxHintLabel) {
			return badHint("of label "+name, "128")
		}
		r.Labels = append(r.Labels, identity.Label{Name: name, Value: string(v)})
	}
	return nil
}

func badHint(name, limit string) *llmapi.Error {
	return llmapi.Refuse(llmapi.CodeInvalidHeader, "Header field "+name+
		" may hold letters, digits and ._:/- only, at most "+limit+".")
}
