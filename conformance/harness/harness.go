// Package harness runs Kvasir's binary as a user would and talks to it over
// its public faces only: clients' HTTP, the admin API, the engines' own
// records. The test suites under conformance share it.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var binary = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("KVASIR_BINARY"); p != "" {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "kvasir-bin")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "kvasir")
	cmd := exec.Command("go", "build", "-o", out, "github.com/kvasir-router/kvasir/cmd/kvasir")
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, b)
	}
	return out, nil
})

// Binary returns the path of the kvasir binary, built once per test process.
func Binary(t testing.TB) string {
	t.Helper()
	p, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Router is a running kvasir serve.
type Router struct {
	*Process
	URL, Admin, Token string
	Config            string // path of its file

	owner testing.TB // whose end is the router's end
}

// Serve starts kvasir serve with a configuration. In yaml, {LISTEN}, {ADMIN},
// {TOKEN} and {STATE} stand for the addresses, the token file and the state
// directory that Serve chooses. It returns when the router is ready.
func Serve(t testing.TB, yaml string) *Router {
	t.Helper()
	dir := t.TempDir()
	r := &Router{owner: t, Token: "test-token", Config: filepath.Join(dir, "kvasir.yaml")}
	listen := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	admin := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	r.URL, r.Admin = "http://"+listen, "http://"+admin
	token := filepath.Join(dir, "token")
	write(t, token, r.Token)
	yaml = strings.NewReplacer("{LISTEN}", listen, "{ADMIN}", admin, "{TOKEN}", token, "{STATE}", filepath.Join(dir,
		"state")).Replace(yaml)
	write(t, r.Config, yaml)
	r.start(t)
	return r
}

func write(t testing.TB, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *Router) start(t testing.TB) {
	t.Helper()
	r.Process = Start(r.owner, exec.Command(Binary(t), "serve", "-c", r.Config))
	Await(t, 60*time.Second, "kvasir ready", func() bool {
		select {
		case <-r.Ended():
			t.Fatalf("kvasir ended:\n%s", r.Log)
		default:
		}
		return Get(r.Admin+"/readyz", "") == 200
	})
}

// Restart kills the router the hard way and starts it again with the same
// configuration and state.
func (r *Router) Restart(t testing.TB) {
	t.Helper()
	r.Kill()
	r.start(t)
}

// Dev is a running kvasir dev; the fields are those of its JSON line.
type Dev struct {
	*Process
	URL        string            `json:"url"`
	Admin      string            `json:"admin"`
	AdminToken string            `json:"admin_token"`
	Model      string            `json:"model"`
	Tenants    map[string]string `json:"tenants"`
	Engines    []DevEngine       `json:"engines"`
	StateDir   string            `json:"state_dir"`
	PluginDir  string            `json:"plugin_dir"`
	PolicyDir  string            `json:"policy_dir"`
	Config     string            `json:"config"`
	PID        int               `json:"pid"`
}

// DevEngine is one simulated engine.
type DevEngine struct {
	URL    string `json:"url"`
	Events string `json:"events"`
}

// StartDev starts kvasir dev --json --port 0 and reads its line.
func StartDev(t testing.TB, args ...string) *Dev {
	t.Helper()
	cmd := exec.Command(Binary(t), append([]string{"dev", "--json", "--port", "0"}, args...)...)
	pr, pw := io.Pipe()
	cmd.Stdout = pw
	d := &Dev{}
	d.Process = Start(t, cmd)
	line := make(chan []byte, 1)
	go func() {
		b := make([]byte, 0, 4096)
		one := make([]byte, 1)
		for {
			if _, err := pr.Read(one); err != nil || one[0] == '\n' {
				break
			}
			b = append(b, one[0])
		}
		line <- b
		io.Copy(io.Discard, pr)
	}()
	select {
	case b := <-line:
		if err := json.Unmarshal(b, d); err != nil {
			t.Fatalf("kvasir dev: %v: %q", err, b)
		}
	case <-d.Ended():
		t.Fatalf("kvasir dev ended:\n%s", d.Log)
	case <-time.After(60 * time.Second):
		t.Fatalf("kvasir dev printed nothing:\n%s", d.Log)
	}
	return d
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// Get returns the status of a GET, 0 when there is no answer.
func Get(url, token string) int {
	status, _ := GetBody(url, token)
	return status
}

// GetBody returns the status and the body of a GET.
func GetBody(url, token string) (int, []byte) { return Do("GET", url, token) }

// Do returns the status and the body of a request without one, 0 when there is
// no answer.
func Do(method, url, token string) (int, []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, nil
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil
	}
	return res.StatusCode, b
}

// Answer is what a client got.
type Answer struct {
	Status    int
	Header    http.Header
	Body      []byte
	RequestID string
	FirstByte time.Duration // of the answer's head
	FirstBody time.Duration // of its body
}

// Post sends a JSON body with a bearer key ("" = none) and reads all of the
// answer.
func Post(url, key string, body any, header ...string) (*Answer, error) {
	var b []byte
	switch x := body.(type) {
	case []byte:
		b = x
	case string:
		b = []byte(x)
	default:
		var err error
		if b, err = json.Marshal(x); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	begin := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	a := &Answer{Status: res.StatusCode, Header: res.Header, RequestID: res.Header.Get("X-Request-Id"),
		FirstByte: time.Since(begin)}
	first := make([]byte, 1)
	n, err := io.ReadFull(res.Body, first)
	a.FirstBody = time.Since(begin)
	if a.Body = first[:n]; err == io.EOF {
		return a, nil
	} else if err != nil {
		return a, err
	}
	rest, err := io.ReadAll(res.Body)
	a.Body = append(a.Body, rest...)
	return a, err
}

// Usage is an OpenAI usage object.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// Cached returns the cached tokens; ok is false when they are not reported.
func (u *Usage) Cached() (n int, ok bool) {
	if u == nil || u.Details == nil || u.Details.Cached == nil {
		return 0, false
	}
	return *u.Details.Cached, true
}

// Completion is the part of a chat or text completion that tests look at.
type Completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Text string `json:"text"`
	} `json:"choices"`
	Usage *Usage `json:"usage"`
}

// Completion decodes a non-streamed answer.
func (a *Answer) Completion() (*Completion, error) {
	c := new(Completion)
	if err := json.Unmarshal(a.Body, c); err != nil {
		return nil, fmt.Errorf("%v: %.300q", err, a.Body)
	}
	return c, nil
}

// Explanation is what kvasir explain reports of one decision.
type Explanation struct {
	RequestID string   `json:"request_id"`
	Tenant    string   `json:"tenant"`
	Allow     bool     `json:"allow"`
	Reason    string   `json:"reason"`
	Model     string   `json:"model"`
	Pool      string   `json:"pool"`
	Namespace string   `json:"namespace_hash"`
	Rules     []string `json:"rules"`
	Revision  string   `json:"policy_revision"`
	Tokens    int      `json:"tokens"`

	TokensExact  bool   `json:"tokens_exact"`
	PromptReason string `json:"prompt_reason"`

	Profile       string `json:"profile"`
	ProfileReason string `json:"profile_reason"`
	Objective     string `json:"objective"`

	Candidates []struct {
		Endpoint string             `json:"endpoint"`
		State    string             `json:"state"`
		Reason   string             `json:"reason"`
		Matched  map[string]int     `json:"matched_tokens"`
		Columns  map[string]float64 `json:"columns"`
		Scores   map[string]struct {
			Score float64            `json:"score"`
			Terms map[string]float64 `json:"terms"`
		} `json:"scores"`
		Total float64 `json:"total"`
	} `json:"candidates"`
	Plugins []struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
		Fault  string `json:"fault"`
	} `json:"plugins"`
	Order     []string `json:"order"`
	Chosen    string   `json:"chosen"`
	Arm       string   `json:"arm"`
	Predicted int      `json:"predicted_cached_tokens"`
	Reported  *int     `json:"reported_cached_tokens"`
}

// Explain asks the admin API about one request.
func Explain(t testing.TB, admin, token, id string) *Explanation {
	t.Helper()
	status, b := GetBody(admin+"/v1/explain/"+id, token)
	if status != 200 {
		t.Fatalf("explain %s: status %d: %s", id, status, b)
	}
	e := new(Explanation)
	if err := json.Unmarshal(b, e); err != nil {
		t.Fatalf("explain %s: %v: %s", id, err, b)
	}
	return e
}

// SimRequest is one line of a simulated engine's record.
type SimRequest struct {
	ID           string  `json:"id"`
	Path         string  `json:"path"`
	Head         []byte  `json:"head"`
	Body         []byte  `json:"body"`
	ReceivedMS   float64 `json:"received_ms"`
	FirstByteMS  float64 `json:"first_byte_ms"`
	EndMS        float64 `json:"end_ms"`
	Aborted      bool    `json:"aborted"`
	PromptTokens int     `json:"prompt_tokens"`
	CachedTokens int     `json:"cached_tokens"`
}

// SimRequests reads what a simulated engine received.
func SimRequests(t testing.TB, engine string) []SimRequest {
	t.Helper()
	status, b := GetBody(engine+"/sim/requests", "")
	if status != 200 {
		t.Fatalf("%s/sim/requests: status %d", engine, status)
	}
	var out []SimRequest
	dec := json.NewDecoder(bytes.NewReader(b))
	for dec.More() {
		var r SimRequest
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// IssueKey has kvasir key issue make an API key for a tenant.
func IssueKey(t testing.TB, file, stateDir, tenant string) string {
	t.Helper()
	cmd := exec.Command(Binary(t), "key", "issue", "--file", file, "--state-dir", stateDir, "--tenant", tenant)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("kvasir key issue: %v: %s", err, errs.String())
	}
	return strings.TrimSpace(string(b))
}

// EventsLive waits at most d until the cache events of n endpoints arrive.
func (r *Router) EventsLive(t testing.TB, n int, d time.Duration) {
	t.Helper()
	var b []byte
	defer func() {
		if t.Failed() {
			t.Logf("the endpoints are %s", b)
		}
	}()
	Await(t, d, "events of all engines live", func() bool {
		_, b = GetBody(r.Admin+"/v1/endpoints", r.Token)
		return bytes.Count(b, []byte(`"events":"live"`)) == n
	})
}

// Leave posts a request and closes the connection once the first bytes of the
// answer's body have come.
func Leave(ctx context.Context, url, key string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		return fmt.Errorf("status %d: %.300s", res.StatusCode, b)
	}
	_, err = res.Body.Read(make([]byte, 64))
	return err
}
