package autoscale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// maxAnswer bounds what a driver may answer, in bytes.
const maxAnswer = 1 << 20

// Command is a Driver that runs a program for each order. The program gets JSON
// on its standard input, {"op": "list", "pool": …}, {"op": "apply", …the
// fields of Order} or {"op": "warm", "pool": …, "current": [id]}, and writes an
// Answer as JSON. An exit code other than 0 is an error, whose text is the end of
// the program's standard error. No shell is involved.
type Command struct {
	Argv []string // program and arguments
	Env  []string // its whole environment, nil = the router's
}

// request is what commands and webhooks receive.
type request struct {
	Op string `json:"op"`
	*Order
}

// List implements Driver.
func (c *Command) List(ctx context.Context, pool string) (*Answer, error) {
	return c.run(ctx, request{"list", &Order{Pool: pool, Current: []string{}}})
}

// Apply implements Driver.
func (c *Command) Apply(ctx context.Context, o *Order) (*Answer, error) {
	return c.run(ctx, request{"apply", o})
}

// Warm implements Warmer: the request has op "warm" and the machine's id in
// current. The answer is ignored.
func (c *Command) Warm(ctx context.Context, pool string, m Machine) error {
	_, err := c.run(ctx, request{"warm", &Order{Pool: pool, Current: []string{m.ID}}})
	return err
}

func (c *Command) run(ctx context.Context, q request) (*Answer, error) {
	in, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("autoscale: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env = c.Env
	cmd.Stdin = bytes.NewReader(in)
	var out, stderr tail
	out.most, stderr.most = maxAnswer+1, 512
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.WaitDelay = time.Second // do not wait for a child that keeps the pipes open
	ownGroup(cmd)
	if err := cmd.Run(); err != nil && (ctx.Err() != nil || !errors.Is(err, exec.ErrWaitDelay)) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("autoscale: command %s: %w%s", c.Argv[0], err, stderr.quoted())
	}
	return parseAnswer(out.b, out.lost)
}

// parseAnswer reads a driver's answer strictly.
func parseAnswer(b []byte, lost bool) (*Answer, error) {
	if lost || len(b) > maxAnswer {
		return nil, fmt.Errorf("autoscale: driver's answer: larger than %d bytes", maxAnswer)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return &Answer{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var a Answer
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("autoscale: driver's answer: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("autoscale: driver's answer: more than one JSON value")
	}
	seen, at := map[string]bool{}, map[string]string{}
	for _, m := range a.Machines {
		u := strings.TrimRight(m.URL, "/")
		if other, twice := at[u]; twice && u != "" {
			return nil, fmt.Errorf("autoscale: driver's answer: machines %.40q and %.40q have the same URL %.100q", other, m.ID,
				u)
		}
		at[u] = m.ID
		if m.ID == "" || len(m.ID) > 128 || seen[m.ID] {
			return nil, fmt.Errorf("autoscale: driver's answer: machine id %.40q is empty, too long or duplicate", m.ID)
		}
		seen[m.ID] = true
	}
	return &a, nil
}

// tail keeps the last bytes written to it.
type tail struct {
	b    []byte
	most int
	lost bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - t.most; n > 0 {
		t.b, t.lost = append(t.b[:0], t.b[n:]...), true
	}
	return len(p), nil
}

// quoted returns the bytes as text for an error, on one line.
func (t *tail) quoted() string {
	s := strings.Join(strings.Fields(string(bytes.ToValidUTF8(t.b, nil))), " ")
	if s == "" {
		return ""
	}
	return ": " + s
}
