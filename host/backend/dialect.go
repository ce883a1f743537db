package backend

import (
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

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Dialect is what a watcher must know of one kind of engine. Implementations are
// values without state, safe for concurrent use.
type Dialect interface {
	Name() string
	// HealthPath is asked with GET; 200 means healthy.
	HealthPath() string
	// MetricsPath is scraped with GET; "" means there are no metrics.
	MetricsPath() string
	// Discover asks the engine what it is and can do. An error means that it will be
	// asked again; what an engine does not offer is no error.
	Discover(ctx context.Context, c *Client) (Capabilities, error)
	// ParseMetrics reads a scrape. Figures that are not there stay zero.
	ParseMetrics(text []byte) Metrics
}

// DialectNames are the built-in dialects.
var DialectNames = []string{"vllm", "sglang", "llamacpp", "ollama", "openai"}

// DialectOf returns the built-in dialect of a name, one of DialectNames.
func DialectOf(name string) (Dialect, error) {
	switch name {
	case "vllm":
		return VLLM{}, nil
	case "sglang":
		return SGLang{}, nil
	case "llamacpp":
		return LlamaCpp{}, nil
	case "ollama":
		return Ollama{}, nil
	case "openai":
		return OpenAI{}, nil
	}
	return nil, fmt.Errorf("backend: unknown dialect %q", name)
}

// Capabilities is what an engine is and can do. Immutable once returned.
type Capabilities struct {
	Version     string  // as the engine tells, "" if it does not
	Models      []Model // what it serves
	MaxModelLen int     // prompt and output tokens it takes; 0 unknown
	BlockTokens int     // tokens per block of its cache, where the metrics do not tell; 0 unknown
	CacheTokens int     // tokens its cache holds, where the metrics do not tell; 0 unknown

	// AnyName: the engine takes requests for names it does not list, as llama.cpp
	// does with its one model. What it serves is then what the configuration says.
	AnyName bool
	// NoSalt are the operations in which requests with different cache salts share
	// the engine's cache: only requests of the public namespace, or of the one
	// tenant that the engine is for, may be placed here for them.
	NoSalt llmapi.Operations
	// InjectUsage: stream_options.include_usage is understood, so that usage can be
	// asked for where the client did not.
	InjectUsage bool
	// ReuseOff names request fields that, when set, make the engine compute the
	// whole prompt although it is cached.
	ReuseOff []string

	// Events are the event sockets, by rank; EventsKnown is false if the engine
	// cannot tell whether it has any.
	Events      []EventSource
	EventsKnown bool
	EventsFault string // why what the engine tells of them is of no use, or ""
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
	// or ::) and connects to any other address, where somebody must listen; other
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
	maxMetricsBytes = 4 << 20
	maxAnswerBytes  = 1 << 20
)

// ErrNotOffered is returned by Client.Get for an answer of 404, 405 or 501.
var ErrNotOffered = errors.New("backend: engine does not offer this path")

// statusError is an answer other than 200.
type statusError int

func (s statusError) Error() string { return "backend: engine answered " + strconv.Itoa(int(s)) }

func newClient(c *http.Client, base, bearer string) (*Client, error) {
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
		return nil, statusError(resp.StatusCode)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("backend: answer to %s is longer than %d bytes", req.URL.Path, limit)
	}
	return body, nil
}

// models reads GET /v1/models, which all dialects here share.
func (c *Client) models(ctx context.Context) (models []Model, maxLen int, err error) {
	body, err := c.Get(ctx, "/v1/models", maxAnswerBytes)
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
		return nil, 0, fmt.Errorf("backend: list of models: %v", err)
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

// OpenAI is the generic dialect: health and the names of models, nothing else.
// Its cache is predicted from what was routed to it.
type OpenAI struct{}

// Name returns "openai".
func (OpenAI) Name() string { return "openai" }

// HealthPath is the one path that every OpenAI server has.
func (OpenAI) HealthPath() string { return "/v1/models" }

// MetricsPath returns "".
func (OpenAI) MetricsPath() string { return "" }

// Discover lists the models.
func (OpenAI) Discover(ctx context.Context, c *Client) (Capabilities, error) {
	models, maxLen, err := c.models(ctx)
	return Capabilities{Models: models, AnyName: true, MaxModelLen: maxLen, InjectUsage: true, EventsKnown: true, NoSalt: llmapi.Prompts}, err
}

// ParseMetrics returns nothing.
func (OpenAI) ParseMetrics([]byte) Metrics { return Metrics{} }

// reachable replaces a host that means "this machine" to the engine (*, 0.0.0.0,
// ::, loopback) by the host we know the engine by. An engine can so name another
// port of its own, or another host by address, but never one of our loopback
// sockets, unless it is on loopback itself.
func reachable(address, host string) (string, error) {
	rest, ok := strings.CutPrefix(address, "tcp://")
	if !ok {
		return "", fmt.Errorf("backend: event address %q is not tcp://", address)
	}
	h, port, err := net.SplitHostPort(rest)
	if err != nil {
		return "", fmt.Errorf("backend: event address %q has no port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("backend: event address %q has no usable port", address)
	}
	ip := net.ParseIP(h)
	if h == "*" || h == "" || h == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		h = host
	}
	return "tcp://" + net.JoinHostPort(h, port), nil
}
