package plugstore

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const crashDir = "PLUGSTORE_CRASH_DIR"

// TestStore_killed kills a process during its changes, again and again: confirmed
// changes are stored, and no file is corrupt.
func TestStore_killed(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		change(dir)
		return
	}
	dir := t.TempDir()
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStore_killed$")
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "done ") {
				done = lines.Text()
			}
			if done == fmt.Sprintf("done %d", 5+3*round) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		s := open(t, dir)
		if p := s.Problems(); len(p) != 0 {
			t.Fatalf("round %d: %v", round, p)
		}
		var last, active int
		if _, err := fmt.Sscanf(done, "done %d", &last); err != nil {
			t.Fatalf("round %d: %q: %v", round, done, err)
		}
		_, code, ok := s.Active("a")
		if _, err := fmt.Sscanf(string(code), "code %d", &active); !ok || err != nil {
			t.Fatalf("round %d: active %v, %q", round, ok, code)
		}
		if active != last && active != last+1 {
			t.Errorf("round %d: %d is active after %d was done", round, active, last)
		}
	}
}

// change activates code 0, code 1, … and prints each, until it is killed.
func change(dir string) {
	s, err := Open(dir)
	for i := 0; err == nil; i++ {
		var d string
		if d, err = s.Put("a", fmt.Appendf(nil, "code %d", i), ""); err == nil {
			err = s.Activate("a", d)
		}
		if err == nil {
			fmt.Printf("done %d\n", i)
		}
	}
	fmt.Println("failed", err)
}
