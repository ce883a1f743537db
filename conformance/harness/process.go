package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that a test started. It is killed when the test ends.
type Process struct {
	Cmd  *exec.Cmd
	Log  *Log
	done chan struct{}
}

// Log keeps the tail of what a process wrote. Safe for concurrent use.
type Log struct {
	mu sync.Mutex // guards b
	b  []byte
}

// maxLog bounds what is kept of a process's output.
const maxLog = 256 << 10

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if len(l.b) > maxLog {
		l.b = append(l.b[:0], l.b[len(l.b)-maxLog/2:]...)
	}
	return len(p), nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// Start starts a program and kills it when the test ends; its log is shown
// when the test failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Log: new(Log), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Log
	}
	cmd.Stderr = p.Log
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), tail(p.Log.String(), 6000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

// Kill ends the process and all it started at once, and waits for it.
func (p *Process) Kill() {
	syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Stop sends SIGTERM and reports whether the process ended within d.
func (p *Process) Stop(d time.Duration) bool {
	p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// The range of FreePort lies below the ports that Linux (from 32768) and macOS (from
// 49152) choose for outgoing connections and for listeners on port 0. Otherwise one of
// these could take the port before the program under test listens on it.
const firstPort, endPort = 20_000, 32_000

// ports are those that FreePort has returned.
var ports sync.Map // of int

// FreePort returns an unused TCP port of the loopback address, a different one at each
// call. Safe for concurrent use.
func FreePort(t testing.TB) int {
	t.Helper()
	for range endPort - firstPort {
		port := firstPort + rand.IntN(endPort-firstPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // in use
		}
		l.Close()
		if _, used := ports.LoadOrStore(port, true); !used {
			return port
		}
	}
	t.Fatalf("no unused port from %d to %d", firstPort, endPort-1)
	return 0
}

// Await polls f until it is true, and fails the test after d.
func Await(t testing.TB, d time.Duration, what string, f func() bool) {
	t.Helper()
	end := time.Now().Add(d)
	for !f() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
