package dialect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"testing"
)

// answers is an engine that gives fixed answers, 404 elsewhere.
func answers(t *testing.T, paths map[string]string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := paths[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	c, err := NewClient(s.Client(), s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func discover(t *testing.T, d *Dialect, paths map[string]string) Capabilities {
	t.Helper()
	caps, err := d.Find(context.Background(), answers(t, paths))
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// TestByName: every dialect is found by its name, and no other.
func TestByName(t *testing.T) {
	for i, d := range All() {
		if got, ok := ByName(d.Name); !ok || got != d || d.Number() != i || Of(d.Name) != d {
			t.Errorf("%s: %v, %v", d.Name, got, ok)
		}
	}
	if _, ok := ByName("vllm2"); ok {
		t.Error("vllm2 is known")
	}
	if Of("").Name != "vllm" || Of("vllm2").Name != "openai" {
		t.Error("default or unknown dialect")
	}
}

// TestLlamaCpp_recorded takes what a llama.cpp server of 2026-10 answered.
func TestLlamaCpp_recorded(t *testing.T) {
	caps := discover(t, &llamaCpp, map[string]string{
		"/v1/models": `{"models":[{"name":"tiny.gguf"}],"object":"list","data":[{"id":"tiny.gguf","object":"model",` +
			`"meta":{"n_ctx":8192,"n_ctx_train":8192}}]}`,
		"/props": `{"default_generation_settings":{"params":{"seed":1},"n_ctx":8192},"total_slots":4,` +
			`"build_info":"b0-unknown","endpoint_metrics":true}`,
	})
	want := Capabilities{Version: "b0-unknown", Models: []Model{{Name: "tiny.gguf", MaxModelLen: 8192}},
		MaxModelLen: 8192, BlockTokens: 16, CacheTokens: 4 * 8192,
		EventsKnown: true}
	if !reflect.DeepEqual(caps, want) {
		t.Errorf("capabilities\n%+v\nwant\n%+v", caps, want)
	}
	text, err := os.ReadFile("testdata/llamacpp_metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := llamaCpp.Parse(text)
	m.Complete(&caps)
	if !m.HasLoad || !m.HasCache || m.PromptTokens != 1234 || m.CacheHits != 766 || m.CacheQueries != 2000 ||
		m.Running != 2 || m.Waiting != 1 || m.CacheBlocks != 2048 {
		t.Errorf("metrics %+v", m)
	}
}

func TestSGLang(t *testing.T) {
	const models = `{"object":"list","data":[{"id":"Qwen/Qwen3-8B","object":"model","max_model_len":40960}]}`
	newer := discover(t, &sglang, map[string]string{
		"/v1/models": models,
		"/server_info": `{"version":"0.5.9","page_size":16,"max_total_num_tokens":300000,"dp_size":2,` +
			`"kv_events":{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:6557","topic":"kv"}}`,
	})
	if newer.Version != "0.5.9" || newer.BlockTokens != 16 || newer.CacheTokens != 300000 || newer.MaxModelLen != 40960 {
		t.Errorf("capabilities %+v", newer)
	}
	want := []EventSource{
		{Rank: 0, Publisher: "tcp://127.0.0.1:5557", Replay: "tcp://127.0.0.1:6557", Topic: "kv"},
		{Rank: 1, Publisher: "tcp://127.0.0.1:5558", Replay: "tcp://127.0.0.1:6558", Topic: "kv"},
	}
	if !reflect.DeepEqual(newer.Events, want) {
		t.Errorf("events %+v, want %+v", newer.Events, want)
	}
	if !sglang.Salted(Chat, newer.Version) || sglang.Salted(Messages, newer.Version) {
		t.Error("requests with salts")
	}
	older := discover(t, &sglang, map[string]string{
		"/v1/models": models,
		"/get_server_info": `{"version":"0.5.2","page_size":1,"kv_events_config":"{\"publisher\":\"zmq\",` +
			`\"endpoint\":\"tcp://0.0.0.0:5560\"}"}`,
	})
	if older.BlockTokens != 1 || len(older.Events) != 1 || older.Events[0].Publisher != "tcp://127.0.0.1:5560" {
		t.Errorf("capabilities %+v", older)
	}
	silent := discover(t, &sglang, map[string]string{"/v1/models": models})
	if silent.EventsKnown || len(silent.Models) != 1 {
		t.Errorf("without server info %+v", silent)
	}
	bad := discover(t, &sglang, map[string]string{"/v1/models": models,
		"/server_info": `{"kv_events":{"endpoint":"ipc://x"}}`})
	if bad.EventsFault == "" || len(bad.Events) != 0 {
		t.Errorf("an ipc address %+v", bad)
	}
	m := sglang.Parse([]byte(`# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="q"} 3
sglang:num_queue_reqs{model_name="q"} 5
sglang:token_usage{model_name="q"} 0.28
sglang:max_total_num_tokens{model_name="q"} 300000
sglang:prompt_tokens_total{model_name="q"} 8128
sglang:generation_tokens_total{model_name="q"} 7557
sglang:cached_tokens_total{model_name="q",cache_source="device"} 4000
sglang:cached_tokens_total{model_name="q",cache_source="host"} 128
sglang:num_requests_total{model_name="q"} 12
`))
	m.Complete(&newer)
	if m.Running != 3 || m.Waiting != 5 || m.KVUsage != 0.28 || m.PromptTokens != 8128 || m.CacheHits != 4128 ||
		m.CacheQueries != 8128 || !m.HasCache || m.CacheBlocks != 300000/16 || m.Requests != 12 {
		t.Errorf("metrics %+v", m)
	}
}

func TestOllama(t *testing.T) {
	caps := discover(t, &ollama, map[string]string{
		"/api/version": `{"version":"0.12.6"}`,
		"/api/tags":    `{"models":[{"name":"llama3.2:latest","size":2019393189},{"name":"qwen3:8b"}]}`,
		"/api/ps":      `{"models":[{"name":"llama3.2:latest","context_length":4096,"size_vram":5137025024}]}`,
	})
	want := []Model{{Name: "llama3.2:latest", MaxModelLen: 4096}, {Name: "llama3.2", MaxModelLen: 4096},
		{Name: "qwen3:8b"}}
	if caps.Version != "0.12.6" || !reflect.DeepEqual(caps.Models, want) || caps.CacheTokens != 4096 ||
		ollama.Salted(Chat, caps.Version) {
		t.Errorf("capabilities %+v", caps)
	}
}

func FuzzReadMetrics(f *testing.F) {
	f.Add([]byte("sglang:num_running_reqs{a=\"b\"} 3\nllamacpp:prompt_tokens_total 1e9\nx NaN\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range []*Dialect{&sglang, &llamaCpp, &vllm} {
			m := d.Parse(b)
			if !(m.KVUsage >= 0 && m.KVUsage <= 1) || m.CacheTokens < 0 || m.Running < 0 {
				t.Errorf("%s: %+v", d.Name, m)
			}
		}
	})
}
