//go:build bench

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// peer is one router in front of the engines.
type peer struct {
	name string
	url  string
	pid  int
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
	return &peer{"nginx", url, p.Cmd.Process.Pid}
}

// kvasir starts the router. Without a tokenizer it places by load only.
func kvasir(t testing.TB, name string, upstreams []string, tokenizer bool) *peer {
	t.Helper()
	var urls []string
	for _, u := range upstreams {
		urls = append(urls, fmt.Sprintf("%q", "http://"+u))
	}
	tok := ""
	if tokenizer {
		tok = ", tokenizer: {dir: " + filepath.Join(testdeps.Cache(t), "engine", "qwen3") + "}"
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: bench}}
pools:
- {name: main, dialect: openai, endpoints: [`+strings.Join(urls, ", ")+`], events: {mode: "off"}, block_tokens: 16}
models: [{name: m, pools: [main]`+tok+`}]
`)
	if b, err := exec.Command("taskset", "-a", "-c", "-p", "1",
		fmt.Sprint(r.Cmd.Process.Pid)).CombinedOutput(); err != nil {
		t.Fatalf("taskset: %v: %s", err, b)
	}
	return &peer{name, r.URL, r.Cmd.Process.Pid}
}

var vocabulary = strings.Fields("the of and to in a is that for it as was with be by on not he his but at are this " +
	"have from or had an they which one you were all her she there would their we him been has when who will no more " +
	"if out so said what up its about than into them can only other time new some could these two may first then do " +
	"any like my now over such our man me even most made after also did many fore must through years where much your " +
	"way well down should because each just those people")

func prose(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}

func chat(stream bool, contents ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","stream":%t,"max_tokens":64,"messages":[`, stream)
	for i, c := range contents {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":%q,"content":%q}`, role, c)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// scenario is one kind of load.
type scenario struct {
	name    string
	clients int
	perWhat string
	body    func(client, turn int) []byte
}

func scenarios() []scenario {
	r := rand.New(rand.NewPCG(4, 4))
	small := chat(false, prose(r, 900))
	big := chat(false, prose(r, 400_000))
	sse := chat(true, "n=256 ")
	var conversations [8][]string
	for i := range conversations {
		for range 40 {
			conversations[i] = append(conversations[i], prose(r, 9000))
		}
	}
	return []scenario{
		{"small request, 16 clients", 16, "request", func(int, int) []byte { return small }},
		{"400 KB prompt repeated, 4 clients", 4, "request", func(int, int) []byte { return big }},
		{"400 KB prompt, next turn, 4 clients", 4, "request", func(c, turn int) []byte {
			last := prose(rand.New(rand.NewPCG(uint64(c), uint64(turn))), 2500)
			return chat(false, append(append([]string(nil), conversations[c]...), last)...)
		}},
		{"stream, 32 clients, an event each 5 ms", 32, "event", func(int, int) []byte { return sse }},
	}
}

const rounds, runFor = 5, 1500 * time.Millisecond

// TestDataPath prints µs of the router's CPU per request or event, and the
// ratio to nginx in the same round (median of the rounds).
func TestDataPath(t *testing.T) {
	var ups []string
	for range 4 {
		ups = append(ups, startFakeEngine(t).Addr().String())
	}
	peers := []*peer{nginx(t, ups), kvasir(t, "kvasir, placing by load only", ups, false),
		kvasir(t, "kvasir, prompts and prediction on", ups, true)}
	for _, sc := range scenarios() {
		figures := make([][]float64, len(peers))
		ratios := make([][]float64, len(peers))
		for round := range rounds + 1 {
			for i, p := range peers {
				before := cpu(t, p.pid)
				requests, events := load(t, p.url, sc.clients, runFor, sc.body)
				n := requests
				if sc.perWhat == "event" {
					n = events
				}
				us := float64((cpu(t, p.pid) - before).Nanoseconds()) / 1000 / float64(max(n, 1))
				if round == 0 {
					continue // the first round is a warm-up
				}
				figures[i] = append(figures[i], us)
				ratios[i] = append(ratios[i], us/figures[0][round-1])
			}
		}
		for i, p := range peers {
			fmt.Printf("%-40s %-36s %8.1f µs a %-8s %.2f x nginx\n", sc.name, p.name, median(figures[i]), sc.perWhat,
				median(ratios[i]))
		}
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
