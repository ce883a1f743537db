//go:build bench

package bench

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

var (
	writeFlag = flag.String("bench.write", "", "README whose table is written")
	checkFlag = flag.String("bench.check", "", "README with whose table the figures are compared")
)

// peer is one router in front of the engines.
type peer struct {
	name   string
	url    string
	pid    int
	router *harness.Router // nil for nginx
}

func nginx(t testing.TB, upstreams []string) *peer {
	t.Helper()
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Fatal("nginx is not installed: apt-get install nginx-light")
	}
	dir, port := t.TempDir(), harness.FreePort(t)
	var servers strings.Builder
	for _, u := range upstreams {
		fmt.Fprintf(&servers, "server %s; ", u)
	}
	conf := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http { access_log off; client_max_body_size 64m; client_body_buffer_size 512k; client_body_temp_path %[1]s;
proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s; keepalive_requests 1000000;
upstream e { %[2]s keepalive 256; keepalive_requests 1000000; }
server { listen 127.0.0.1:%[3]d; location / { proxy_pass http://e; proxy_http_version 1.1;
proxy_set_header Connection ""; proxy_buffering off; } } }
`, dir, servers.String(), port)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.Start(t, exec.Command("taskset", "-c", "1", "nginx", "-p", dir, "-c", file))
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	harness.Await(t, 10*time.Second, "nginx serves", func() bool { return harness.Get(url+"/v1/models", "") == 200 })
	return &peer{"nginx", url, p.Cmd.Process.Pid, nil}
}

func tokenizerDir(t testing.TB) string { return filepath.Join(testdeps.Cache(t), "engine", "qwen3") }

// blockTokens is the size of the engines' blocks.
const blockTokens = 16

// kvasir starts the router. Without a tokenizer it places by load only.
func kvasir(t testing.TB, name string, upstreams []string, tokenizer bool) *peer {
	t.Helper()
	var urls []string
	for _, u := range upstreams {
		urls = append(urls, fmt.Sprintf("%q", "http://"+u))
	}
	tok := ""
	if tokenizer {
		tok = ", tokenizer: {dir: " + tokenizerDir(t) + "}"
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: bench}}
pools:
- {name: main, dialect: openai, endpoints: [`+strings.Join(urls, ", ")+`], events: {mode: "off"},
   block_tokens: `+fmt.Sprint(blockTokens)+`}
models: [{name: m, pools: [main]`+tok+`}]
`)
	if b, err := exec.Command("taskset", "-a", "-c", "-p", "1",
		fmt.Sprint(r.Cmd.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("taskset: %v: %s", err, b)
	}
	return &peer{name, r.URL, r.Cmd.Process.Pid, r}
}

// scenario is one kind of load.
type scenario struct {
	name    string
	clients int
	events  bool // cost per event, not per request
	body    func(client int) []byte
}

// conversation returns a body for each turn of some clients: 36 messages that stay and
// one that no peer has seen before.
func conversation(r *rand.Rand, n counter, text func(r *rand.Rand, bytes int) string) func(client int) []byte {
	var (
		histories [4][]message
		shared    [4]int
		turns     atomic.Uint64
	)
	for i := range histories {
		for k := range 36 {
			m := user(text(r, 10_000))
			if k%2 == 1 {
				m.Role = "assistant"
			}
			histories[i] = append(histories[i], m)
		}
		one, other := n.tokens(chat(false, histories[i]...)), n.tokens(chat(false, append(histories[i], user("x"))...))
		for shared[i] < len(one) && one[shared[i]] == other[shared[i]] {
			shared[i]++
		}
	}
	return func(client int) []byte {
		last := user(text(rand.New(rand.NewPCG(4, turns.Add(1))), 2500))
		return n.counted(chat(false, append(slices.Clone(histories[client]), last)...), shared[client])
	}
}

func scenarios(n counter) []scenario {
	r := rand.New(rand.NewPCG(4, 4))
	same := func(body []byte) func(int) []byte {
		body = n.counted(body, math.MaxInt)
		return func(int) []byte { return body }
	}
	return []scenario{
		{"1 KB request, 16 clients", 16, false, same(chat(false, user(prose(r, 900))))},
		{"400 KB of prose, repeated", 4, false, same(chat(false, user(prose(r, 390_000))))},
		{"400 KB of an agent's calls of tools, repeated", 4, false, same(chat(false, agent(r, 360_000)...))},
		{"400 KB of code, next turn", 4, false, conversation(r, n, code)},
		{"event of a stream, 32 streams at 5 ms", 32, true, same(chat(true, user("n=256 ")))},
	}
}

// A ratio is the median of the rounds' ratios: what else runs on the machine in a round
// slows all peers.
const rounds, runFor = 5, 1500 * time.Millisecond

// TestDataPath measures µs of CPU per request or event and KB per open stream, and the
// ratios to nginx in the same rounds. It prints the table of README; with -bench.write
// it writes the table, with -bench.check it fails if a ratio is more than 10 % worse
// than the recorded one in each of three measurements.
func TestDataPath(t *testing.T) {
	recorded := readRecorded(t)
	ups := startEngines(t)
	peers := []*peer{nginx(t, ups), kvasir(t, columns[1], ups, false), kvasir(t, columns[2], ups, true)}
	var rows []row
	for _, sc := range scenarios(newCounter(t)) {
		rows = append(rows, checked(t, recorded, func() row { return sc.measure(t, peers) }))
	}
	agrees(t, peers[2])
	rows = append(rows, checked(t, recorded, func() row { return openStreams(t, ups) }))
	fmt.Print("\n", format(rows))
	if *writeFlag == "" {
		return
	}
	before, _, after, err := splitTable(readFile(t, *writeFlag))
	if err == nil {
		err = os.WriteFile(*writeFlag, []byte(before+format(rows)+after), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func startEngines(t *testing.T) (addrs []string) {
	for range 4 {
		addrs = append(addrs, startFakeEngine(t).Addr().String())
	}
	return addrs
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readRecorded returns the recorded table, nil without -bench.check.
func readRecorded(t *testing.T) []row {
	if *checkFlag == "" {
		return nil
	}
	_, table, _, err := splitTable(readFile(t, *checkFlag))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parse(table)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// checked returns a measurement, and fails if three of them are worse than recorded.
func checked(t *testing.T, recorded []row, measure func() row) row {
	r := measure()
	for tries := 1; recorded != nil; tries++ {
		bad := r.worse(recorded)
		if len(bad) == 0 {
			break
		}
		if tries == 3 {
			t.Error(strings.Join(bad, "; "))
			break
		}
		again := measure()
		for i := range r.ratios {
			r.ratios[i] = min(r.ratios[i], again.ratios[i])
		}
	}
	return r
}

func (sc *scenario) measure(t *testing.T, peers []*peer) row {
	figures, ratios := make([][]float64, len(peers)), make([][]float64, len(peers))
	for round := range rounds + 1 {
		for i, p := range peers {
			before := cpu(t, p.pid)
			n, events := load(t, p.url, sc.clients, runFor, sc.body)
			if sc.events {
				n = events
			}
			us := float64((cpu(t, p.pid) - before).Nanoseconds()) / 1000 / float64(max(n, 1))
			if round == 0 {
				continue // a warm-up
			}
			figures[i] = append(figures[i], us)
			ratios[i] = append(ratios[i], us/figures[0][round-1])
		}
	}
	r := row{name: sc.name, nginx: fmt.Sprintf("%.1f µs", median(figures[0]))}
	for i, p := range peers {
		fmt.Printf("%-46s %-26s %8.1f µs %6.2f x nginx\n", sc.name, p.name, median(figures[i]), median(ratios[i]))
		if i > 0 {
			r.ratios = append(r.ratios, median(ratios[i]))
		}
	}
	return r
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
