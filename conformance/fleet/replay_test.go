package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// chatTurn is one request of a workload, as a line of a log that kvasir replay reads.
type chatTurn struct {
	Timestamp    float64         `json:"timestamp"` // seconds
	Conversation string          `json:"conversation"`
	Think        float64         `json:"think"` // seconds
	Body         json.RawMessage `json:"body"`
}

// chatLoad is conversations that share a system prompt, begin at random within span
// seconds, and add about 1,500 tokens a turn.
func chatLoad(model string, conversations int, span float64) [][]chatTurn {
	r := rand.New(rand.NewPCG(11, 7))
	text := func(words int) string {
		var b strings.Builder
		for range words {
			for range 3 + r.IntN(4) {
				b.WriteByte(byte('a' + r.IntN(26)))
			}
			b.WriteByte(' ')
		}
		return b.String()
	}
	system := text(400)
	out := make([][]chatTurn, conversations)
	for i := range out {
		messages := []map[string]string{{"role": "system", "content": system}}
		begin := r.Float64() * span
		for range 3 {
			messages = append(messages, map[string]string{"role": "user", "content": text(350 + r.IntN(200))})
			body, _ := json.Marshal(map[string]any{"model": model, "messages": messages, "max_tokens": 20, "ignore_eos": true,
				"stream": true, "stream_options": map[string]bool{"include_usage": true}})
			out[i] = append(out[i], chatTurn{begin, fmt.Sprint("chat ", i), 0.5 + r.Float64(), body})
			messages = append(messages, map[string]string{"role": "assistant", "content": text(15)})
		}
	}
	return out
}

// replayFigures is what real and virtual time are compared by.
type replayFigures struct {
	Hit    float64 `json:"hit"`
	TTFT50 float64 `json:"ttft_p50_s"`
}

// sendChats sends the load through a router, each conversation in a closed loop.
func sendChats(t *testing.T, url string, load [][]chatTurn) replayFigures {
	t.Helper()
	var mu sync.Mutex
	var ttft []float64
	var prompt, cached int
	begin := time.Now()
	var wg sync.WaitGroup
	for _, turns := range load {
		wg.Go(func() {
			time.Sleep(time.Until(begin.Add(time.Duration(turns[0].Timestamp * float64(time.Second)))))
			for i, turn := range turns {
				if i > 0 {
					time.Sleep(time.Duration(turn.Think * float64(time.Second)))
				}
				a, err := harness.Post(url+"/v1/chat/completions", "", []byte(turn.Body))
				if err != nil || a.Status != 200 {
					t.Errorf("%s: %v, answer %+v", turn.Conversation, err, a)
					return
				}
				u := streamUsage(a.Body)
				n, ok := u.Cached()
				if !ok || u.CompletionTokens != 20 {
					t.Errorf("%s: usage %+v of %.300q", turn.Conversation, u, a.Body)
					return
				}
				mu.Lock()
				ttft = append(ttft, a.FirstBody.Seconds())
				prompt, cached = prompt+u.PromptTokens, cached+n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(ttft)
	if len(ttft) == 0 {
		t.FailNow()
	}
	return replayFigures{Hit: float64(cached) / float64(max(1, prompt)), TTFT50: ttft[(len(ttft)-1)/2]}
}

// streamUsage returns the usage of a streamed answer, nil if there is none.
func streamUsage(body []byte) (u *harness.Usage) {
	for line := range bytes.Lines(body) {
		var c harness.Completion
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok &&
			json.Unmarshal(append([]byte("{"), data...), &c) == nil && c.Usage != nil {
			u = c.Usage
		}
	}
	return u
}

// replayChats runs the load in virtual time.
func replayChats(t *testing.T, load [][]chatTurn, tokenizer, preset string, engines int) replayFigures {
	t.Helper()
	var log bytes.Buffer
	e := json.NewEncoder(&log)
	for _, turns := range load {
		for _, turn := range turns {
			if err := e.Encode(turn); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.Binary(t), "replay", "--trace", path, "--format", "openai", "--tokenizer", tokenizer,
		"--endpoints", fmt.Sprint(engines), "--preset", preset, "--against", "none", "--seeds", "1", "--output", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kvasir replay: %v", err)
	}
	var got struct {
		Scenarios []struct {
			Rows []struct{ Mean replayFigures }
		}
	}
	if err := json.Unmarshal(out, &got); err != nil || len(got.Scenarios) != 1 || len(got.Scenarios[0].Rows) != 1 {
		t.Fatalf("kvasir replay: %v: %s", err, out)
	}
	return got.Scenarios[0].Rows[0].Mean
}

// machineDelay returns by how many seconds the median time to the first token of
// conversations that hardly overlap is longer in real time than in virtual time: what the
// machine itself adds to a request.
func machineDelay(t *testing.T, tokenizer, preset string, engines int) float64 {
	t.Helper()
	e := startEngines(t, engines, "--preset", preset)
	r := serve(t, e, "{name: default, holdout: 0}")
	load := chatLoad(e[0].Model, 6, 6)
	return sendChats(t, r.URL, load).TTFT50 - replayChats(t, load, tokenizer, preset, engines).TTFT50
}

// TestReplay_agreesWithRealTime: the same conversations through kvasir serve before
// simulated engines, and through kvasir replay, reuse the same share of the prompts
// within one point and have the same median time to the first token within a tenth. In
// real time the machine adds its own delay, which is measured and deducted if it matters;
// a busy machine makes it longer at times: of three attempts one must agree.
func TestReplay_agreesWithRealTime(t *testing.T) {
	const engines, preset = 3, "8b-a100"
	var tokenizer string
	for range 3 {
		e := startEngines(t, engines, "--preset", preset)
		r := serve(t, e, "{name: default, holdout: 0}")
		if tokenizer == "" {
			tokenizer = demoDir(t)
		}
		load := chatLoad(e[0].Model, 24, 6)
		virtual := replayChats(t, load, tokenizer, preset, engines)
		real := sendChats(t, r.URL, load)
		t.Logf("hit %.2f %% in real time, %.2f in virtual time; TTFT p50 %.1f and %.1f ms",
			100*real.Hit, 100*virtual.Hit, 1e3*real.TTFT50, 1e3*virtual.TTFT50)
		agree := func(delay float64) bool {
			return math.Abs(real.Hit-virtual.Hit) <= 0.01 && math.Abs((real.TTFT50-delay)/virtual.TTFT50-1) <= 0.1
		}
		if agree(0) {
			return
		}
		delay := machineDelay(t, tokenizer, preset, engines)
		t.Logf("of these the machine adds %.1f ms", 1e3*delay)
		if agree(delay) {
			return
		}
	}
	t.Error("real and virtual time differ three times")
}
