package simengine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxHeadBytes bounds a request's head, as uvicorn's h11 does.
const maxHeadBytes = 64 << 10

// request is one HTTP request as it was received.
type request struct {
	method, path string // path without query
	query        url.Values
	head         []byte // raw, with the empty line that ends it
	body         []byte // decoded from chunks
	received     time.Time
	close        bool      // the connection ends after the answer
	bad          *apiError // it could not be read: to be answered, then closed
}

// header returns the first value of a header, "" if there is none.
func (r *request) header(name string) string {
	v, _ := r.lookup(name)
	return v
}

// lookup returns the first value of a header and how many there are.
func (r *request) lookup(name string) (value string, n int) {
	for line := range bytes.Lines(r.head) {
		k, v, ok := bytes.Cut(line, []byte(":"))
		if ok && len(k) == len(name) && strings.EqualFold(string(k), name) {
			if n == 0 {
				value = string(bytes.TrimSpace(v))
			}
			n++
		}
	}
	return value, n
}

// number returns a non-negative number of the query, 0 if it is not there.
func (r *request) number(name string) (n int, ok bool) {
	s := r.query.Get(name)
	if s == "" {
		return 0, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0
}

// readHead reads up to the empty line. io.EOF means that no request began.
func readHead(br *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				head = append(head, line...)
				if len(head) > maxHeadBytes {
					return nil, errHeadTooLong
				}
				continue
			}
			if len(head)+len(line) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		blank := len(line) <= 2 && (len(head) == 0 || head[len(head)-1] == '\n')
		if blank && len(head) == 0 {
			continue // RFC 9112 2.2: ignore empty lines before a request
		}
		if head = append(head, line...); blank {
			return head, nil
		}
		if len(head) > maxHeadBytes {
			return nil, errHeadTooLong
		}
	}
}

var errHeadTooLong = errors.New("simengine: request head too long")

// readRequest reads one request. proceed is called when the client waits for
// "100 Continue". An error means that the connection is of no more use; a
// request that must be refused has bad set instead.
func readRequest(br *bufio.Reader, maxBody int64, now func() time.Time, proceed func() error) (*request, error) {
	head, err := readHead(br)
	if errors.Is(err, errHeadTooLong) {
		return &request{received: now(), close: true, bad: httpError(431, "Request Header Fields Too Large")}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &request{head: head, received: now()}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	parts := strings.Fields(string(line))
	if len(parts) != 3 || parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" || !strings.HasPrefix(parts[1], "/") {
		return r.refuse(400, "Invalid HTTP request received."), nil
	}
	u, err := url.ParseRequestURI(parts[1])
	if err != nil {
		return r.refuse(400, "Invalid HTTP request received."), nil
	}
	r.method, r.path, r.query = parts[0], u.Path, u.Query()
	connection := strings.ToLower(r.header("connection"))
	r.close = strings.Contains(connection, "close") ||
		parts[2] == "HTTP/1.0" && !strings.Contains(connection, "keep-alive")
	if strings.EqualFold(r.header("expect"), "100-continue") {
		if err := proceed(); err != nil {
			return nil, err
		}
	}
	return r.readBody(br, maxBody)
}

func (r *request) refuse(status int, message string) *request {
	r.close, r.bad = true, httpError(status, message)
	return r
}

// readBody reads the body by exactly one of the two framings.
func (r *request) readBody(br *bufio.Reader, maxBody int64) (*request, error) {
	length, nLength := r.lookup("content-length")
	coding, nCoding := r.lookup("transfer-encoding")
	switch {
	case nLength > 1 || nCoding > 1 || nLength+nCoding > 1:
		return r.refuse(400, "ambiguous body length"), nil
	case nCoding == 1:
		if !strings.EqualFold(coding, "chunked") {
			return r.refuse(501, "unknown transfer coding"), nil
		}
		return r.readChunks(br, maxBody)
	case nLength == 1:
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return r.refuse(400, "bad content-length"), nil
		}
		if n > uint64(maxBody) {
			return r.refuse(413, "Request Entity Too Large"), nil
		}
		// The buffer grows with what arrives, not with what was announced.
		body := bytes.NewBuffer(make([]byte, 0, min(n, 1<<20)+bytes.MinRead))
		if _, err := io.CopyN(body, br, int64(n)); err != nil {
			return nil, err
		}
		r.body = body.Bytes()
	}
	return r, nil
}

func (r *request) readChunks(br *bufio.Reader, maxBody int64) (*request, error) {
	body, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(br), maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("simengine: chunked body: %w", err)
	}
	if int64(len(body)) > maxBody {
		return r.refuse(413, "Request Entity Too Large"), nil
	}
	r.body = body
	for { // trailers
		line, err := br.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			return r, nil
		}
	}
}
