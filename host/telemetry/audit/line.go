package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// record is a line without its hash. The order of its fields is the format.
type record struct {
	Seq    uint64            `json:"seq"`
	Time   string            `json:"time"` // RFC 3339, UTC, nanoseconds
	Actor  string            `json:"actor"`
	Verb   string            `json:"verb"`
	Object string            `json:"object"`
	Result string            `json:"result"`
	Detail map[string]string `json:"detail,omitempty"`
	Prev   string            `json:"prev"`
}

const (
	timeForm  = "2006-01-02T15:04:05.000000000Z"
	maxText   = 1 << 10
	maxDetail = 32
	maxLine   = 512 << 10 // more than 68 texts of 1 KiB with each byte escaped as six
	hashMark  = `,"hash":"`
	hashLen   = len(hashMark) + 2*sha256.Size + len(`"}`)
)

// text returns s as valid UTF-8, so that its JSON is the same after any number of
// decodings, and bounded. API keys and tokens are removed before it is cut.
func text(s string) string {
	if s = secret.Redact(s); len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "�")
}

// encode returns the line of e that follows head, with its newline, and the head
// after it.
func encode(e Event, head Head) ([]byte, Head, error) {
	r := record{
		Seq: head.Seq + 1, Time: e.Time.UTC().Format(timeForm),
		Actor: text(e.Actor), Verb: text(e.Verb), Object: text(e.Object),
		Result: text(e.Result), Prev: hex.EncodeToString(head.Hash[:]),
	}
	if len(e.Detail) > 0 {
		r.Detail = map[string]string{}
		for i, k := range slices.Sorted(maps.Keys(e.Detail)) {
			if i == maxDetail {
				break
			}
			r.Detail[text(k)] = text(e.Detail[k])
		}
	}
	body, err := json.Marshal(&r)
	if err != nil {
		return nil, head, fmt.Errorf("audit: %v", err)
	}
	next := Head{Seq: r.Seq, Hash: link(head.Hash, body)}
	line := append(body[:len(body)-1], hashMark...)
	line = hex.AppendEncode(line, next.Hash[:])
	return append(line, "\"}\n"...), next, nil
}

// link is the hash of a line.
func link(prev [32]byte, body []byte) (sum [32]byte) {
	h := sha256.New()
	h.Write(prev[:])
	h.Write(body)
	h.Sum(sum[:0])
	return sum
}

// Errors of a line, as Verify reports them.
var (
	errForm  = errors.New("is not a line of an audit log")
	errHash  = errors.New("does not match its hash: it was changed")
	errPrev  = errors.New("does not follow from the line before: a line was changed, removed or moved")
	errSeq   = errors.New("does not have the number after the line before: lines were removed, added or moved")
	errStart = errors.New("is the first of its file but follows another line: earlier files are missing")
	errFirst = errors.New("has number 1 but follows another line")
)

// parse checks one line by itself, without its newline. It returns the record, the
// head that the line follows and the line's own.
func parse(line []byte) (r record, before, own Head, err error) {
	if len(line) < hashLen+1 || len(line) > maxLine || !bytes.HasPrefix(line[len(line)-hashLen:], []byte(hashMark)) {
		return r, before, own, errForm
	}
	sum, ok := unhex(string(line[len(line)-hashLen+len(hashMark) : len(line)-2]))
	if !ok || line[len(line)-1] != '}' {
		return r, before, own, errForm
	}
	body := append(bytes.Clone(line[:len(line)-hashLen]), '}')
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil {
		return r, before, own, errForm
	}
	prev, ok := unhex(r.Prev)
	if _, terr := time.Parse(timeForm, r.Time); !ok || terr != nil || r.Seq == 0 {
		return r, before, own, errForm
	}
	if again, err := json.Marshal(&r); err != nil || !bytes.Equal(again, body) {
		return r, before, own, errForm // not in canonical form: a duplicate member, another case, other spacing
	}
	before, own = Head{r.Seq - 1, prev}, Head{r.Seq, sum}
	switch {
	case link(prev, body) != sum:
		err = errHash
	case r.Seq == 1 && prev != [32]byte{}:
		err = errFirst
	}
	return r, before, own, err
}

// unhex decodes 64 lower-case hexadecimal digits.
func unhex(s string) (sum [32]byte, ok bool) {
	if len(s) != 2*len(sum) || strings.ToLower(s) != s {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(s))
	return sum, err == nil
}
