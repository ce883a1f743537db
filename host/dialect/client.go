package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Capabilities is what an engine is and can do. Immutable once returned.
type Capabilities struct {
	Version     string  // as the engine reports, "" if it does not
	Models      []Model // what it serves
	MaxModelLen int     // prompt and output tokens it takes; 0 unknown
	BlockTokens int     // tokens per block of its cache, where the metrics do not report it; 0 unknown
	CacheTokens int     // tokens its cache holds, where the metrics do not report it; 0 unknown

	// Events are the event sockets, by rank; EventsKnown is false if the engine
	// cannot report whether it has any.
	Events      []EventSource
	EventsKnown bool
	EventsFault string // why what the engine reports of them cannot be used, or ""
}

// Model is one name an engine serves.
type Model struct {
	Name        string
	Base        string // the model an adapter belongs to; "" for a base model
	MaxModelLen int    // 0 unknown
}

// EventSource is where one rank of an engine publishes its cache events.
type EventSource struct {
	Rank      int
	Publisher string // tcp://host:port
	// Dials: the address has no wildcard. vLLM binds only where there is one (*
	// or ::) and connects to any other address, where another process must listen; other
	// publishers bind it all the same, so it takes a look to know.
	Dials  bool
	Replay string // "" if there is none
	Topic  string
}

// Client asks one engine. Safe for concurrent use.
type Client struct {
	http   *http.Client
	base   string // without a trailing slash
	host   string // of base, without port
	bearer string
}

// Bounds of what an engine may answer. A vLLM scrape is 56 kB per model; 4 MiB
// holds one of 64 ranks.
const (
	MaxMetricsBytes = 4 << 20
	MaxAnswerBytes  = 1 << 20
)

// ErrNotOffered is returned by Client.Get for an answer of 404, 405 or 501.
var ErrNotOffered = errors.New("dialect: engine does not offer this path")

// StatusError is an answer with another status than 200, returned by Client.Get.
type StatusError int

func (s StatusError) Error() string { return "dialect: engine answered " + strconv.Itoa(int(s)) }

// NewClient returns a client for the engine at a base URL, with a token that is shown
// to it ("" = none).
func NewClient(c *http.Client, base, bearer string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	return &Client{http: c, base: strings.TrimRight(base, "/"), host: u.Hostname(), bearer: bearer}, nil
}

// Get returns the body of an answer of 200, at most limit bytes.
func (c *Client) Get(ctx context.Context, path string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	return c.do(req, limit)
}

// Post sends JSON and returns the body of an answer of 200, at most limit bytes.
func (c *Client) Post(ctx context.Context, path string, body []byte, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req, limit)
}

// do sends a request with the engine's credentials.
func (c *Client) do(req *http.Request, limit int64) ([]byte, error) {
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == 404, resp.StatusCode == 405, resp.StatusCode == 501:
		return nil, ErrNotOffered
	case resp.StatusCode != 200:
		return nil, StatusError(resp.StatusCode)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("dialect: answer to %s is longer than %d bytes", req.URL.Path, limit)
	}
	return body, nil
}

// Models reads GET /v1/models. maxLen is the longest context of a base model.
func (c *Client) Models(ctx context.Context) (models []Model, maxLen int, err error) {
	body, err := c.Get(ctx, "/v1/models", MaxAnswerBytes)
	if err != nil {
		return nil, 0, err
	}
	return parseModels(body)
}

func parseModels(body []byte) (models []Model, maxLen int, err error) {
	var answer struct {
		Data []struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			Max    *int    `json:"max_model_len"`
			Meta   struct {
				Ctx int `json:"n_ctx"` // llama.cpp
			} `json:"meta"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, 0, fmt.Errorf("dialect: list of models: %v", err)
	}
	for _, m := range answer.Data {
		if m.ID == "" || len(models) == maxModels {
			continue
		}
		out := Model{Name: m.ID, MaxModelLen: m.Meta.Ctx}
		if m.Max != nil {
			out.MaxModelLen = *m.Max
		}
		if m.Parent != nil {
			out.Base = *m.Parent
		}
		if out.MaxModelLen < 0 || out.MaxModelLen > 1<<30 {
			out.MaxModelLen = 0
		}
		if out.Base == "" {
			maxLen = max(maxLen, out.MaxModelLen)
		}
		models = append(models, out)
	}
	return models, maxLen, nil
}

// maxModels bounds the names one engine may serve, adapters included.
const maxModels = 4096

// reachable replaces a host that means "this machine" to the engine (*, 0.0.0.0,
// ::, loopback) by the host we know the engine by. An engine can so name another
// port of its own, or another host by address, but never one of our loopback
// sockets, unless it is on loopback itself.
func reachable(address, host string) (string, error) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	if !ok {
		return "", fmt.Errorf("dialect: event address %q is not tcp://", address)
	}
	h, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", fmt.Errorf("dialect: event address %q has no port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("dialect: event address %q has no usable port", address)
	}
	ip := net.ParseIP(h)
	if h == "*" || h == "" || h == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		h = host
	}
	return "tcp://" + net.JoinHostPort(h, port), nil
}

// version reads {"version": …} at a path, "" if the engine does not offer it.
func (c *Client) version(ctx context.Context, path string) (string, error) {
	body, err := c.Get(ctx, path, MaxAnswerBytes)
	if err != nil {
		if answered(err) {
			err = nil
		}
		return "", err
	}
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) != nil {
		return "", nil
	}
	return shortVersion(v.Version), nil
}

// shortVersion returns a version that can be shown, "" for one of 100 bytes or more.
func shortVersion(s string) string {
	if len(s) >= 100 {
		return ""
	}
	return s
}

// answered reports whether err is the engine's answer, and not the lack of one.
func answered(err error) bool {
	var status StatusError
	return errors.Is(err, ErrNotOffered) || errors.As(err, &status)
}

// atLeast compares a version "major.minor…" with a release. Versions that cannot
// be read, and builds from source ("0.1.dev…"), are taken as of today.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || strings.HasPrefix(version, "0.1.dev") {
		return true
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return true
	}
	return a > major || a == major && b >= minor
}

// With returns a client that shows a token to the same engine over h.
func (c *Client) With(h *http.Client, bearer string) *Client {
	next := *c
	next.http, next.bearer = h, bearer
	return &next
}

// Host returns the host of the engine's URL, without a port.
func (c *Client) Host() string { return c.host }
