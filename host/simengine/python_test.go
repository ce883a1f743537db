package simengine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// python returns the interpreter that scripts/deps.sh prepares.
func python(t *testing.T) string {
	t.Helper()
	p := testdeps.Need(t, "venv-zmq", "bin", "python")
	if out, err := exec.Command(p, "-c", "import zmq, msgspec, msgpack").CombinedOutput(); err != nil {
		t.Fatalf("run make deps (%v %s)", err, out)
	}
	return p
}

// TestPython reads events and replay with libzmq and msgspec: they come to
// exactly the cache, the bytes are those msgspec writes, and the hashes those
// of Python's pickle and hashlib.
func TestPython(t *testing.T) {
	interpreter := python(t)
	for _, arrays := range []bool{false, true} {
		t.Run(fmt.Sprint("arrays=", arrays), func(t *testing.T) {
			r := run(t, func(c *Config) {
				c.CacheBlocks, c.ArrayEvents, c.Adapters = 60, arrays, []string{"tuned"}
			})
			// What will come is known from the same requests sent to another
			// engine.
			twin := run(t, func(c *Config) { c.CacheBlocks, c.Adapters = 60, []string{"tuned"} })
			twin.mixed()
			batches := int(twin.Engine.pub.next())
			args := []string{"testdata/reader.py", "tcp://" + r.pub, "tcp://" + r.replay, "kv", fmt.Sprint(batches)}
			if arrays {
				args = append(args, "arrays")
			}
			cmd := exec.Command(interpreter, args...)
			cmd.Stderr = os.Stderr
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			out := bufio.NewReader(pipe)
			if line, err := out.ReadString('\n'); err != nil || line != "subscribed\n" {
				t.Fatalf("%q %v", line, err)
			}
			until(t, "libzmq's subscription", func() bool { return r.Engine.pub.subscribers() == 1 })
			r.mixed()
			var got struct {
				Stored, Removed, Cleared int
				BytesDiffer              int `json:"bytes_differ"`
				WrongHash                int `json:"wrong_hash"`
				Blocks                   []uint64
				Same                     bool
			}
			if err := json.NewDecoder(out).Decode(&got); err != nil {
				t.Fatal(err, cmd.Wait())
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			r.mu.Lock()
			held := r.model.Hashes(nil)
			r.mu.Unlock()
			slices.Sort(held)
			if !slices.Equal(got.Blocks, held) {
				t.Errorf("Python sees %d blocks, the cache holds %d", len(got.Blocks), len(held))
			}
			if got.BytesDiffer != 0 || got.WrongHash != 0 || !got.Same {
				t.Errorf("%+v", got)
			}
			if got.Stored < 100 || got.Removed < 50 || got.Cleared != 1 {
				t.Errorf("too little happened: %d stored, %d removed, %d cleared", got.Stored, got.Removed, got.Cleared)
			}
		})
	}
}

func (p *publisher) next() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// mixed is traffic with salts, an adapter, long salts and a reset.
func (r *rig) mixed() {
	r.t.Helper()
	r.conversation(30)
	long := string(slices.Repeat([]byte("s"), 300))
	for i := range 5 {
		r.mustPost("/v1/completions",
			fmt.Sprintf(`{"model":"tuned","prompt":[%d,70,80,90,100,300,1400,7],"max_tokens":4,"cache_salt":"%s"}`, i%2, long))
		r.mustPost("/v1/completions", fmt.Sprintf(`{"model":"tuned","prompt":[%d,70,80,90,100,300,1400,7],"max_tokens":4}`,
			i))
	}
	if !r.Reset() {
		r.t.Fatal("in use")
	}
	r.conversation(20)
}
