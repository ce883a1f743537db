package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client calls the admin API of a router. It may be used concurrently.
type Client struct {
	URL   string // of the listener, such as http://127.0.0.1:9090
	Token string // the admin token, an API key or a JWT

	HTTP *http.Client // nil = http.DefaultClient
}

// StatusError is an error response of a router.
type StatusError struct {
	Status  int // of HTTP
	Code    string
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return e.Message }

// UnreachableError reports that no router responded.
type UnreachableError struct {
	URL string
	Err error // without the path of the request, which may hold a pasted key
}

// Error implements error.
func (e *UnreachableError) Error() string { return fmt.Sprintf("no router at %s: %v", e.URL, e.Err) }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// maxResponse bounds a response in bytes.
const maxResponse = 64 << 20

// Call sends a request and returns the decoded response. The error is a
// *StatusError, an *UnreachableError, or says what is wrong with the request or
// the response.
func (o Operation[Q, R]) Call(ctx context.Context, c *Client, q *Q) (out R, err error) {
	b, err := o.Raw(ctx, c, q)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("admin: the response to %s: %w", o.Route, err)
	}
	return out, nil
}

// Raw is Call that returns the JSON as the router sent it.
func (o Operation[Q, R]) Raw(ctx context.Context, c *Client, q *Q) ([]byte, error) {
	target, body, contentType, err := encode(o.Route, q)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return c.send(ctx, o.Method, target, body, contentType)
}

// send does one request and returns the body of a 2xx response.
func (c *Client) send(ctx context.Context, method, target string, body []byte, contentType string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("admin: address %q: want a URL such as http://127.0.0.1:9090", c.URL)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, &UnreachableError{c.URL, err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return nil, &UnreachableError{c.URL, err}
	}
	if res.StatusCode/100 != 2 {
		return nil, statusError(res.StatusCode, b)
	}
	return b, nil
}

// statusError decodes an error response.
func statusError(status int, b []byte) error {
	var e ErrorBody
	if json.Unmarshal(b, &e) == nil && e.Error.Message != "" {
		return &StatusError{status, e.Error.Code, e.Error.Message}
	}
	return &StatusError{Status: status, Message: fmt.Sprintf("the router answered %d: %.300s", status, b)}
}
