package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func testWorker(t testing.TB) *compileWorker {
	t.Helper()
	command, err := SelfCommand("__serves")
	if err != nil {
		t.Fatal(err)
	}
	n := &compileWorker{command: command, cacheDir: t.TempDir(), turn: make(chan struct{}, 1),
		accepted: map[[sha256.Size]byte]struct{}{}}
	if err := os.Chmod(n.cacheDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

func (n *compileWorker) takeFile(t testing.TB, name string) error {
	code, err := os.ReadFile("../../conformance/guests/" + name + ".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return n.take(t.Context(), name, code, &trial{CacheDir: n.cacheDir, Options: Options{Instances: 1}, Size: len(code)},
		childTime)
}

// TestChild_priority: a child runs when nothing else wants to.
func TestChild_priority(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Log("no /proc: nothing to look at")
		return
	}
	n := testWorker(t)
	if err := n.takeFile(t, "ok"); err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.running.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(threads, err)
	}
	for _, f := range threads {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), ") ") // from field 3 on, proc(5)
		fields := strings.Fields(rest)
		if nice, policy := fields[19-3], fields[41-3]; nice != "19" || policy != "5" && policy != "0" {
			t.Errorf("%s: nice %s, policy %s", f, nice, policy)
		}
	}
}

// TestChild_orphan: a child exits when its parent has ended.
func TestChild_orphan(t *testing.T) {
	n := testWorker(t)
	code, err := os.ReadFile("../../conformance/guests/spin_always.wasm")
	if err != nil {
		t.Fatal(err)
	}
	head, err := json.Marshal(&trial{CacheDir: n.cacheDir, Options: Options{Instances: 1}, Size: len(code)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := startChild(n.command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...),
		code...)); err != nil {
		t.Fatal(err)
	}
	if err := c.end(); err == nil {
		t.Error("the child ended as if it had answered")
	}
}

// TestWorker_idle: one child serves many modules and ends when there are none.
func TestWorker_idle(t *testing.T) {
	n := testWorker(t)
	if err := n.takeFile(t, "ok"); err != nil {
		t.Fatal(err)
	}
	first := n.running
	if err := n.takeFile(t, "spin_start"); err == nil || !strings.HasPrefix(err.Error(), "wasm: start: ") {
		t.Errorf("got %v, want a refusal in step start", err)
	}
	if err := n.takeFile(t, "abstain"); err != nil || n.running != first {
		t.Errorf("%v; another child was started: %v", err, n.running != first)
	}
	if next := n.maintain(n.used.Add(childIdle / 2)); !next.Equal(n.used.Add(childIdle)) || n.running == nil {
		t.Errorf("looked at early: ended %v, next %v", n.running == nil, next)
	}
	if next := n.maintain(n.used.Add(childIdle)); !next.IsZero() || n.running != nil {
		t.Errorf("looked at late: ended %v, next %v", n.running == nil, next)
	}
	if st := first.cmd.ProcessState; st == nil || !st.Success() {
		t.Errorf("the child ended with %v", st)
	}
	if err := n.takeFile(t, "ok"); err != nil || n.running != nil {
		t.Errorf("%v; a child was started for a module that had its trial: %v", err, n.running != nil)
	}
}

func TestPruneCache(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprint(i))
		at := begun.Add(time.Duration(-i) * time.Hour)
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := pruneCache(dir, 250); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "0" || filepath.Base(left[1]) != "1" {
		t.Errorf("left %v, want the two youngest; %v", left, err)
	}
}

// FuzzReadTrial: a child reads what its parent writes; other input is an
// error.
func FuzzReadTrial(f *testing.F) {
	head := []byte(`{"CacheDir":"x","Options":{"Instances":1},"Published":{"a":1},"Size":3}`)
	f.Add(append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(head))), head...), 1, 2, 3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{2, 0, 0, 0, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, code, err := readTrial(bytes.NewReader(b))
		if err == nil && (tr == nil || len(code) != tr.Size || len(code) > maxModuleBytes) {
			t.Errorf("got %+v, %d bytes", tr, len(code))
		}
	})
}

// FuzzReadVerdict: whatever a child writes is a verdict or an error, and what
// writeVerdict writes is read.
func FuzzReadVerdict(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, '{', '}'}, "start", "it spins")
	f.Fuzz(func(t *testing.T, b []byte, step, text string) {
		var v verdict
		_ = readVerdict(bytes.NewReader(b), &v)
		var out bytes.Buffer
		if err := writeVerdict(&out, verdict{step[:min(len(step), 64)], text}); err != nil {
			t.Fatal(err)
		}
		if err := readVerdict(&out, &v); err != nil {
			t.Fatal(err)
		}
		if strings.ToValidUTF8(text, "") == text && len(text) <= childAnswer/8 && v.Err != text {
			t.Errorf("got %q, want %q", v.Err, text)
		}
	})
}
