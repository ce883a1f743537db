package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// curled is the output of curl, with the time of each line.
type curled struct {
	lines []string
	at    []time.Duration // time of each line since the start of curl
	exit  int
}

// curl runs curl -N, which prints the response without buffering.
func curl(t testing.TB, args ...string) *curled {
	c := &curled{}
	cmd := exec.Command("curl",
		append([]string{"-sS", "-N", "--max-time", "60", "-H", "Content-Type: application/json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return c
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return c
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		c.lines, c.at = append(c.lines, s.Text()), append(c.at, time.Since(began))
	}
	err = cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		c.exit = e.ExitCode()
	} else if err != nil {
		t.Error(err)
	}
	t.Logf("curl %s: exit %d %s", args[len(args)-1], c.exit, stderr.String())
	return c
}

// first returns the index of the first line that begins with s, or -1.
func (c *curled) first(s string) int {
	for i, l := range c.lines {
		if strings.HasPrefix(l, s) {
			return i
		}
	}
	return -1
}

func heldBody(t testing.TB, model string, stream bool) string {
	t.Helper()
	b, err := json.Marshal(chatBody(model, "s", "u", stream, 8))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// awaitHeld waits until n requests are in the waiting room.
func awaitHeld(t testing.TB, admin, token string, n int) {
	t.Helper()
	want := fmt.Sprintf("\nkvasir_waiting_room %d\n", n)
	harness.Await(t, 20*time.Second, fmt.Sprint(n, " held"), func() bool {
		_, b := harness.GetBody(admin+"/metrics", token)
		return bytes.Contains(b, []byte(want))
	})
}

// TestHeld checks that streams receive heartbeats while the first engine starts, also
// over HTTP/1.0, and then their whole answer. Clients whose timeout is shorter than a
// start receive it too. A client that disconnects leaves the waiting room at once.
func TestHeld(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--autoscale", "--cold-start", "12s", "--engines", "1")
	url, key, body := d.URL+"/v1/chat/completions", d.Tenants["acme"], heldBody(t, d.Model, true)

	auth := "Authorization: Bearer " + key
	var wg sync.WaitGroup
	defer wg.Wait()
	// The requests of the clients start the engine; the clients themselves are slow to start.
	wg.Go(func() { script(t, "scripts/held_client.py", d.URL, key, d.Model) })
	awaitHeld(t, d.Admin, d.AdminToken, 5)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- harness.Leave(ctx, url, key, []byte(body)) }()
	awaitHeld(t, d.Admin, d.AdminToken, 6)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("client that disconnects before a heartbeat: %v", err)
	}
	awaitHeld(t, d.Admin, d.AdminToken, 5)

	for _, version := range []string{"--http1.1", "--http1.0"} {
		wg.Go(func() {
			c := curl(t, "-H", auth, "-d", body, version, url)
			beat, data, done := c.first(": waiting"), c.first("data: {"), c.first("data: [DONE]")
			if c.exit != 0 || beat != 0 || data < 0 || done < data || c.first("data: {\"error\"") >= 0 {
				t.Errorf("curl %s: exit %d, %q", version, c.exit, c.lines)
				return
			}
			if c.at[beat] < 4*time.Second || c.at[data]-c.at[beat] < time.Second {
				t.Errorf("curl %s: the first heartbeat came after %v, the answer after %v", version, c.at[beat], c.at[data])
			}
		})
	}
	wg.Go(func() {
		a, err := harness.Post(url, key, chatBody(d.Model, "s", "u", false, 8))
		if err != nil || a.Status != 200 {
			t.Errorf("without stream: %v %+v", err, a)
		}
	})
	awaitHeld(t, d.Admin, d.AdminToken, 8)
	// This client disconnects at its first heartbeat.
	if err := harness.Leave(t.Context(), url, key, []byte(body)); err != nil {
		t.Errorf("client that disconnects after a heartbeat: %v", err)
	}
	awaitHeld(t, d.Admin, d.AdminToken, 8)
	wg.Wait()
	awaitHeld(t, d.Admin, d.AdminToken, 0)
}

// TestHeld_never uses a driver that fails and starts nothing. When the longest wait is
// over, each waiting client receives an error in the format of its API.
func TestHeld_never(t *testing.T) {
	t.Parallel()
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools:
- name: main
  dialect: vllm
  autoscale: {max: 1, cold_start: 90s, max_held: 20, max_hold: 7s, driver: {command: ["false"]}}
models: [{name: m, pools: [main], tokenizer: {dir: `+demoDir(t)+`}}]
`)
	url := r.URL + "/v1/chat/completions"
	var wg sync.WaitGroup
	wg.Go(func() {
		c := curl(t, "-d", heldBody(t, "m", true), url)
		failed := c.first("data: {\"error\"")
		// curl's exit code 18: it received a part of the body.
		if c.exit != 18 || c.first(": waiting") != 0 || failed < 0 ||
			!strings.Contains(c.lines[failed], "model_not_started") || c.first("data: [DONE]") >= 0 {
			t.Errorf("exit %d, %q", c.exit, c.lines)
			return
		}
		if at := c.at[failed]; at < 6*time.Second || at > 12*time.Second {
			t.Errorf("error after %v", at)
		}
	})
	wg.Go(func() {
		c := curl(t, "-i", "-d", heldBody(t, "m", false), url)
		if c.exit != 0 || c.first("HTTP/1.1 503") != 0 || c.first("Retry-After: 90") < 0 ||
			!strings.Contains(c.lines[len(c.lines)-1], "model_not_started") {
			t.Errorf("exit %d, %q", c.exit, c.lines)
		}
	})
	wg.Go(func() { script(t, "scripts/held_client.py", r.URL, "any", "m", "never") })
	wg.Wait()
	awaitHeld(t, r.Admin, r.Token, 0)
}

// TestHeld_stop checks that a router serves held requests before it stops.
func TestHeld_stop(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--autoscale", "--cold-start", "7s", "--engines", "1")
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, stream := range []bool{true, false} {
		wg.Go(func() {
			c := curl(t, "-H", "Authorization: Bearer "+d.Tenants["acme"], "-d", heldBody(t, d.Model, stream),
				d.URL+"/v1/chat/completions")
			all := strings.Join(c.lines, "\n")
			if c.exit != 0 || !strings.Contains(all, "content") || stream != (c.first("data: [DONE]") > 0) ||
				stream && c.first(": waiting") != 0 {
				t.Errorf("stream %v: exit %d, %q", stream, c.exit, c.lines)
			}
		})
	}
	awaitHeld(t, d.Admin, d.AdminToken, 2)
	if !d.Stop(30 * time.Second) {
		t.Error("the router still runs 30 s after SIGTERM")
	}
}
