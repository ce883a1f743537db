package wasm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Limits of a child. The largest module that is accepted needs 20 s and 500 MB. The
// limit of elapsed time is for busy machines, because a child has the lowest priority.
const (
	childProcessor = 60 * time.Second // for one module
	childBytes     = 2 << 30
	childTime      = 3 * time.Minute // for one module
	childAnswer    = 64 << 10        // most bytes of an answer
	childHeader    = 1 << 20         // most bytes of a trial's head
)

// A child stays for childIdle after its last module, because starting one blocks a
// thread of this process for a millisecond, longer on a busy machine. It is replaced
// after childUses modules or a large one, because it keeps the memory.
const (
	childIdle = time.Minute
	childUses = 500
)

// maxAccepted is the most trials that are remembered as successful.
const maxAccepted = 256

// trial asks a child to load a module as this process will.
type trial struct {
	CacheDir  string
	Options   Options
	Published map[string]float32 // columns there are, with their defaults
	Size      int                // bytes of the module, which follows
}

// verdict is the result of a trial. Step is that of a LoadError, "" = success.
type verdict struct{ Step, Err string }

// errNoChild is returned if no child can be started.
var errNoChild = errors.New("wasm: no child process")

// compileWorker compiles and tries modules in a child process of the lowest priority,
// so that compiling them, their loops and their allocations do not delay requests. It
// is safe for concurrent use; a child loads one module at a time.
type compileWorker struct {
	command  []string
	cacheDir string
	lost     sync.Once // logs that there is no child

	turn     chan struct{}                  // cap 1: held to use what follows
	running  *child                         // nil = none
	used     time.Time                      // when running answered last
	accepted map[[sha256.Size]byte]struct{} // trials that succeeded
}

// take loads a module in the child, in at most the given elapsed time. Afterwards the compile cache holds its code.
// The error is a *LoadError, errNoChild or that of ctx.
func (n *compileWorker) take(ctx context.Context, digest string, code []byte, t *trial, most time.Duration) error {
	head, err := json.Marshal(t)
	if err != nil {
		return err
	}
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.turn }()
	key := sha256.Sum256(append([]byte(digest), head...))
	if _, ok := n.accepted[key]; ok {
		return nil
	}
	v, err := n.ask(ctx, head, code, most)
	switch {
	case err != nil:
		return err
	case v.Step != "":
		return loadErr(v.Step, errors.New(v.Err))
	}
	if len(n.accepted) >= maxAccepted {
		clear(n.accepted)
	}
	n.accepted[key] = struct{}{}
	return pruneCache(n.cacheDir, maxCacheBytes)
}

// ask passes a module to the running child, or starts one.
func (n *compileWorker) ask(ctx context.Context, head, code []byte, most time.Duration) (v verdict, err error) {
	fresh := n.running == nil
	if fresh {
		if n.running, err = startChild(n.command); err != nil {
			return v, err
		}
	}
	v, err = n.running.ask(ctx, head, code, most)
	n.used = time.Now()
	n.running.uses++
	if err != nil || len(code) > slicedBytes || n.running.uses >= childUses {
		n.end()
	}
	if errors.Is(err, errEnded) && !fresh { // perhaps before it read the module
		return n.ask(ctx, head, code, most)
	}
	return v, err
}

// end ends the running child.
func (n *compileWorker) end() {
	if n.running != nil {
		n.running.end()
		n.running = nil
	}
}

// maintain ends a child that has been idle for childIdle, and returns when to call it
// again; zero = there is no child.
func (n *compileWorker) maintain(now time.Time) time.Time {
	select {
	case n.turn <- struct{}{}:
	default: // in use
		return now.Add(childIdle)
	}
	defer func() { <-n.turn }()
	if n.running == nil {
		return time.Time{}
	}
	if due := n.used.Add(childIdle); now.Before(due) {
		return due
	}
	n.end()
	return time.Time{}
}

// close ends the child. take must not be called afterwards.
func (n *compileWorker) close() {
	n.turn <- struct{}{}
	n.end()
}

// child is a process that loads modules.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	stderr prefix
	uses   int
}

// errEnded is returned if a child ends by itself.
var errEnded = errors.New("exited without a verdict")

func startChild(command []string) (*child, error) {
	c := &child{cmd: exec.Command(command[0], command[1:]...)}
	c.cmd.Env = []string{"GOMAXPROCS=1"} // nothing of this process's environment
	c.cmd.Stderr = &c.stderr
	in, err1 := c.cmd.StdinPipe()
	out, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%w: %v", errNoChild, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %v", errNoChild, err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, nil
}

// ask loads a module in the child. After an error the child has ended.
func (c *child) ask(ctx context.Context, head, code []byte, most time.Duration) (v verdict, err error) {
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer context.AfterFunc(within, func() { _ = c.cmd.Process.Kill() })() // fails where it has ended
	_, err = c.in.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...))
	if err == nil {
		_, err = c.in.Write(code)
	}
	if err == nil {
		err = readVerdict(c.out, &v)
	}
	if err == nil {
		return v, nil
	}
	ended := c.end()
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case within.Err() != nil:
		return verdict{}, loadErr("compile", fmt.Errorf("no verdict of the compile process within %v", most))
	case ended == nil:
		ended = err
	}
	return verdict{}, loadErr("compile", fmt.Errorf("the compile process (limits: %v of processor time, %d MiB) %w: %v%s",
		childProcessor, childBytes>>20, errEnded, ended, &c.stderr))
}

func readVerdict(in io.Reader, v *verdict) error {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > childAnswer {
		return fmt.Errorf("answer of %d bytes, at most %d", n, childAnswer)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// end closes the child's input, which ends it, and returns its exit status. It may be
// called more than once.
func (c *child) end() error {
	if c.in == nil {
		return nil
	}
	c.in.Close()
	c.in = nil
	return c.cmd.Wait()
}

// prefix keeps the first bytes of what is written to it.
type prefix struct{ text []byte }

func (w *prefix) Write(p []byte) (int, error) {
	w.text = append(w.text, p[:min(len(p), maxLastText-len(w.text))]...)
	return len(p), nil
}

// String returns a colon and the first line, or "".
func (w *prefix) String() string {
	line, _, _ := strings.Cut(string(w.text), "\n")
	if line != "" {
		return ": " + strings.ToValidUTF8(line, "?")
	}
	return ""
}
