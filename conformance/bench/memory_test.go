//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// openStreams measures the resident memory of fresh peers per open stream, each with
// another prompt of 400 KB. What the router's memo of prompts holds is printed beside.
func openStreams(t *testing.T, ups []string) row {
	const streams = 200
	name := "KB per open stream with a 400 KB prompt"
	r := row{name: name}
	var first float64
	for i, p := range []*peer{nginx(t, ups), kvasir(t, columns[1], ups, false), kvasir(t, columns[2], ups, true)} {
		load(t, p.url, 1, 200*time.Millisecond, func(int) []byte { return chat(false, user("hello")) })
		before, memoBefore := resident(t, p.pid), memo(t, p)
		closers := hold(t, p.url, streams)
		time.Sleep(3 * time.Second) // free buffers of bodies are returned after two
		kb := float64(resident(t, p.pid)-before) / 1024 / streams
		held := float64(memo(t, p)-memoBefore) / 1024 / streams
		for _, c := range closers {
			c.Close()
		}
		fmt.Printf("%-46s %-26s %8.0f KB, %.0f of them in the memo of prompts\n", name, p.name, kb, held)
		if i == 0 {
			first, r.nginx = kb, fmt.Sprintf("%.0f KB", kb)
		} else {
			r.ratios = append(r.ratios, kb/first)
		}
	}
	return r
}

// hold opens streams, each with its own prompt, of which the engine sends one event.
func hold(t *testing.T, url string, n int) (open []io.Closer) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 77))
		body := chat(true, user("hold "+prose(r, 390_000)))
		res, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("stream %d: %v", i, err)
		}
		if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		open = append(open, res.Body)
	}
	return open
}

// resident returns the resident memory of a process and its children in bytes.
func resident(t *testing.T, pid int) (sum int) {
	t.Helper()
	for _, p := range family(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p))
		if err != nil {
			continue // it ended
		}
		pages, err := strconv.Atoi(strings.Fields(string(b))[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += pages * os.Getpagesize()
	}
	return sum
}

// memo returns the bytes that a router's memo of prompts holds, 0 for nginx.
func memo(t *testing.T, p *peer) int {
	t.Helper()
	if p.router == nil {
		return 0
	}
	return int(metricSum(t, p, "kvasir_prompts_memo_bytes"))
}

// metricSum returns the sum of a router's series whose name and labels begin with prefix.
func metricSum(t *testing.T, p *peer, prefix string) (sum float64) {
	t.Helper()
	_, b := harness.GetBody(p.router.Admin+"/metrics", p.router.Token)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, prefix) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// agrees fails if the router counted tokens otherwise than the engine reports, or
// mispredicted often: first requests of a prompt that arrive together are mispredicted,
// and so are turns that happen to share one more block with another turn.
func agrees(t *testing.T, p *peer) {
	t.Helper()
	differed := metricSum(t, p, "kvasir_prompt_differed_total")
	exact := metricSum(t, p, `kvasir_predictions_total{result="exact"`)
	wrong := metricSum(t, p, `kvasir_predictions_total{result="wrong"`)
	fmt.Printf("%s: %.0f prompts of another length, %.0f predictions exact, %.0f wrong\n", p.name, differed, exact, wrong)
	if differed > 0 || exact == 0 || wrong > exact/20 {
		t.Error("the router measured is not in its usual state: it disagrees with the engine about prompts")
	}
}
