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
// fields of Order} or {"op": "warm", "pool": …, "current": [id]}, and writes an Answer as JSON. An exit code other than 0 is
// an error, whose text is the end of its standard error. No shell is involved.
type Command struct {
	Argv []string // program and arguments
	Dir  string   // working directory, "" = ours
	Env  []string // its whole environment, nil = ours
}

// question is what commands and webhooks are sent.
type question struct {
	Op string `json:"op"`
	*Order
}

// List implements Driver.
func (c *Command) List(ctx context.Context, pool string) (*Answer, error) {
	return c.run(ctx, question{"list", &Order{Pool: pool, Current: []string{}}})
}

// Apply implements Driver.
func (c *Command) Apply(ctx context.Context, o *Order) (*Answer, error) {
	return c.run(ctx, question{"apply", o})
}

// Warm implements Warmer: the question has op "warm" and the machine's id in
// current. The answer is not read.
func (c *Command) Warm(ctx context.Context, pool string, m Machine) error {
	_, err := c.run(ctx, question{"warm", &Order{Pool: pool, Current: []string{m.ID}}})
	return err
}

func (c *Command) run(ctx context.Context, q question) (*Answer, error) {
	in, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("autoscale: %w", err)
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin = bytes.NewReader(in)
	var out, complaint tail
	out.most, complaint.most = maxAnswer+1, 512
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second // a child that keeps the pipes open holds nothing up
	ownGroup(cmd)
	if err := cmd.Run(); err != nil && (ctx.Err() != nil || !errors.Is(err, exec.ErrWaitDelay)) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("autoscale: command %s: %w%s", c.Argv[0], err, complaint.quoted())
	}
	return parseAnswer(out.b, out.lost)
}

// parseAnswer reads a driver's answer strictly.
func parseAnswer(b []byte, lost bool) (*Answer, error) {
	if lost || len(b) > maxAnswer {
		return nil, fmt.Errorf("autoscale: driver's answer is larger than %d bytes", maxAnswer)
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
			return nil, fmt.Errorf("autoscale: driver's answer: machines %.40q and %.40q are both at %.100q", other, m.ID, u)
		}
		at[u] = m.ID
		if m.ID == "" || len(m.ID) > 128 || seen[m.ID] {
			return nil, fmt.Errorf("autoscale: driver's answer: machine id %.40q is empty, too long or there twice", m.ID)
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

// quoted is the text for an error, on one line.
func (t *tail) quoted() string {
	s := strings.Join(strings.Fields(string(bytes.ToValidUTF8(t.b, nil))), " ")
	if s == "" {
		return ""
	}
	return ": " + s
}
