package simengine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// apiError is an error answer in vLLM's shape (ErrorResponse of
// vllm/entrypoints/serve/engine/protocol.py).
type apiError struct {
	status  int
	kind    string // type
	message string
	param   string // "" = null
}

func (e *apiError) Error() string { return "simengine: " + e.message }

func (e *apiError) json() []byte {
	var body struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    int     `json:"code"`
		} `json:"error"`
	}
	body.Error.Message, body.Error.Type, body.Error.Code = e.message, e.kind, e.status
	if e.param != "" {
		body.Error.Param = &e.param
	}
	return appendJSON(nil, body)
}

// anthropic is the error as vLLM answers it on the paths of Anthropic's API.
func (e *apiError) anthropic() []byte {
	return appendJSON(nil, map[string]any{"type": "error", "error": map[string]string{"type": e.kind,
		"message": e.message}})
}

// httpError is how vLLM answers what its web framework refuses.
func httpError(status int, message string) *apiError {
	return &apiError{status: status, kind: http.StatusText(status), message: message}
}

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "BadRequestError", message: fmt.Sprintf(format, args...), param: param}
}

// clientError makes an error answer of the error of a [Prompter], if it is none
// already.
func clientError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	return badRequest("", "%v", err)
}

// reply writes the answer to one request. It belongs to one goroutine.
type reply struct {
	conn    net.Conn
	now     func() time.Time
	started func() // called once, before the first byte of the body
	begun   bool
	close   bool // end the connection afterwards
	err     error
	buf     []byte
}

func (w *reply) write(b []byte) {
	if w.err != nil {
		return
	}
	if !w.begun {
		w.begun = true
		w.started()
	}
	w.send(b)
}

func (w *reply) send(b []byte) {
	if _, err := w.conn.Write(b); err != nil {
		w.err, w.close = err, true
	}
}

func (w *reply) appendHead(b []byte, status int, contentType string) []byte {
	b = fmt.Appendf(b, "HTTP/1.1 %d %s\r\ndate: %s\r\nserver: uvicorn\r\n", status, http.StatusText(status),
		w.now().UTC().Format(http.TimeFormat))
	if contentType != "" {
		b = append(b, "content-type: "+contentType+"\r\n"...)
	}
	if w.close {
		b = append(b, "connection: close\r\n"...)
	}
	return b
}

// whole writes a complete answer.
func (w *reply) whole(status int, contentType string, body []byte) {
	b := w.appendHead(w.buf[:0], status, contentType)
	b = append(b, "content-length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(append(b, "\r\n\r\n"...), body...)
	w.buf = b
	w.write(b)
}

func (w *reply) json(status int, body []byte) { w.whole(status, "application/json", body) }

func (w *reply) error(e *apiError) { w.json(e.status, e.json()) }

// value answers 200 with v as JSON.
func (w *reply) value(v any) {
	w.json(http.StatusOK, appendJSON(nil, v))
}

// half writes the head of a complete answer and only the first half of its
// body, then the connection is to be closed.
func (w *reply) half(contentType string, body []byte) {
	b := w.appendHead(w.buf[:0], http.StatusOK, contentType)
	b = fmt.Appendf(b, "content-length: %d\r\n\r\n", len(body))
	w.close = true
	w.write(append(b, body[:len(body)/2]...))
}

// begin starts a chunked event stream. Its head goes out at once, as uvicorn's
// does, or late, with the first event.
func (w *reply) begin(late bool) {
	w.buf = w.appendHead(w.buf[:0], http.StatusOK, "text/event-stream; charset=utf-8")
	w.buf = append(w.buf, "transfer-encoding: chunked\r\n\r\n"...)
	if !late {
		w.send(w.buf)
		w.buf = w.buf[:0]
	}
}

// chunk appends one chunk to what flush will write.
func (w *reply) chunk(data []byte) {
	w.buf = strconv.AppendInt(w.buf, int64(len(data)), 16)
	w.buf = append(w.buf, "\r\n"...)
	w.buf = append(w.buf, data...)
	w.buf = append(w.buf, "\r\n"...)
}

func (w *reply) flush() {
	if len(w.buf) > 0 && w.err == nil {
		w.write(w.buf)
		w.buf = w.buf[:0]
	}
}

// end writes the last chunk.
func (w *reply) end() {
	w.buf = append(w.buf, "0\r\n\r\n"...)
	w.flush()
}

// fail ends the connection without finishing the answer.
func (w *reply) fail() {
	w.close = true
	if w.err == nil {
		w.err = errCut
	}
}

var errCut = errors.New("simengine: answer cut off")
