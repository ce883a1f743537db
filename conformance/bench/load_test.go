//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cpu returns the CPU time that a process and its children have used.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, p := range family(pid) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p))
		for _, f := range tasks {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // the thread ended
			}
			ns, _ := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// family returns a process and all its descendants.
func family(pid int) []int {
	out := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range lists {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(s); err == nil {
				out = append(out, family(child)...)
			}
		}
	}
	return out
}

// load sends the bodies that body(client) returns, with clients concurrent clients
// for the duration d, and returns the number of answers and of stream events.
func load(t testing.TB, url string, clients int, d time.Duration, body func(client int) []byte) (requests,
	events int64) {
	t.Helper()
	var wg sync.WaitGroup
	var n, ev, failed atomic.Int64
	end := time.Now().Add(d)
	tr := &http.Transport{MaxIdleConnsPerHost: clients}
	defer tr.CloseIdleConnections()
	for c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			buf := make([]byte, 64<<10)
			for time.Now().Before(end) {
				req, _ := http.NewRequest("POST", url+"/v1/chat/completions", bytes.NewReader(body(c)))
				req.Header.Set("Content-Type", "application/json")
				res, err := tr.RoundTrip(req)
				if err != nil || res.StatusCode != 200 {
					failed.Add(1)
					if err == nil {
						res.Body.Close()
					}
					continue
				}
				for {
					k, err := res.Body.Read(buf)
					ev.Add(int64(bytes.Count(buf[:k], []byte("\n\n"))))
					if err != nil {
						if err != io.EOF {
							failed.Add(1)
						}
						break
					}
				}
				res.Body.Close()
				n.Add(1)
			}
		}()
	}
	wg.Wait()
	if f := failed.Load(); f > 0 {
		t.Fatalf("%s: %d of %d requests failed", url, f, f+n.Load())
	}
	return n.Load(), ev.Load()
}
