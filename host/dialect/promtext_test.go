package dialect

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestParseVLLM_golden(t *testing.T) {
	text, err := os.ReadFile("testdata/vllm-0.32.metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := parseVLLM(text)
	m.reported = 0
	want := Metrics{BlockTokens: 32, CacheBlocks: 131072, StartTime: 1.79598106144e9, Requests: 9, PromptTokens: 3465,
		OutputTokens: 128, CacheQueries: 3465, CacheHits: 1664, HasCache: true, HasLoad: true}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v\nwant %+v", m, want)
	}
}

func TestParseVLLM_names(t *testing.T) {
	cases := []struct {
		name, text string
		want       Metrics
	}{
		{"old names", "vllm:gpu_cache_usage_perc 0.25\nvllm:gpu_prefix_cache_queries_total 10\n" +
			"vllm:gpu_prefix_cache_hits_total 4\n",
			Metrics{KVUsage: 0.25, CacheQueries: 10, CacheHits: 4, HasCache: true}},
		{"both names report the same", "vllm:kv_cache_usage_perc 0.5\nvllm:gpu_cache_usage_perc 0.5\n" +
			"vllm:prefix_cache_queries_total 7\nvllm:gpu_prefix_cache_queries 7\nvllm:prefix_cache_hits 1\n" +
			"vllm:gpu_prefix_cache_hits 1\n",
			Metrics{KVUsage: 0.5, CacheQueries: 7, CacheHits: 1, HasCache: true}},
		{"without _total", "vllm:prompt_tokens 5\nvllm:generation_tokens 6\n" +
			"vllm:request_success{finished_reason=\"abort\"} 2\nvllm:request_success{finished_reason=\"stop\"} 3\n",
			Metrics{PromptTokens: 5, OutputTokens: 6, Requests: 5, Aborted: 2}},
		{"ranks add up", `vllm:num_requests_running{engine="0"} 3` + "\n" + `vllm:num_requests_running{engine="1"} 4` + "\n" +
			`vllm:num_requests_waiting{engine="0"} 1` + "\n" + `vllm:kv_cache_usage_perc{engine="0"} 0.1` + "\n" +
			`vllm:kv_cache_usage_perc{engine="1"} 0.9` + "\n" +
			`vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100"} 1` + "\n" +
			`vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="50"} 1`,
			Metrics{Running: 7, Waiting: 1, KVUsage: 0.9, BlockTokens: 16, CacheBlocks: 150, HasLoad: true}},
		{"asleep", `vllm:engine_sleep_state{sleep_state="awake"} 0` + "\n" +
			`vllm:engine_sleep_state{sleep_state="weights_offloaded"} 1`, Metrics{Sleeping: true}},
		{"awake", `vllm:engine_sleep_state{sleep_state="awake"} 1` + "\n" +
			`vllm:engine_sleep_state{sleep_state="discard_all"} 0`, Metrics{}},
		{"unknown sizes", `vllm:cache_config_info{block_size="None",num_gpu_blocks="None"} 1`, Metrics{}},
		{"nonsense", "vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:prompt_tokens -1\n" +
			"vllm:kv_cache_usage_perc x\nvllm:generation_tokens\nvllm:num_requests_running{a=\"b 4\n", Metrics{}},
		{"stamps, exemplars, carriage returns", "vllm:prompt_tokens_total 5 1700000000\n" +
			"vllm:generation_tokens_total 6 # {trace=\"x\"} 1 2\r\nprocess_start_time_seconds 1.5e9\r\n# EOF",
			Metrics{PromptTokens: 5, OutputTokens: 6, StartTime: 1.5e9}},
		{"adapters of the last set",
			`vllm:lora_requests_info{max_lora="2",running_lora_adapters="old",waiting_lora_adapters=""} 1.7e9` + "\n" +
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a, b,",waiting_lora_adapters="c"} 1.7000001e9` + "\n" +
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="older",waiting_lora_adapters=""} 1.6e9`,
			Metrics{Adapters: []string{"a", "b"}}},
		{"no adapter runs",
			`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a",waiting_lora_adapters=""} 1` + "\n" +
				`vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters="a"} 2`, Metrics{}},
		{"braces and commas in labels", `vllm:request_success{x="a}b,\"c\\",finished_reason="abort",y="\n"} 3`,
			Metrics{Requests: 3, Aborted: 3}},
	}
	for _, c := range cases {
		got := parseVLLM([]byte(c.text))
		got.reported = 0
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestRestarted(t *testing.T) {
	at := func(start, prompt, requests float64) Metrics {
		return parseVLLM([]byte(fmt.Sprintf("process_start_time_seconds %f\nvllm:prompt_tokens %f\n"+
			"vllm:request_success %f\n", start, prompt, requests)))
	}
	none := parseVLLM([]byte("process_start_time_seconds 1000\n"))
	cases := []struct {
		name      string
		prev, cur Metrics
		want      string
	}{
		{"goes on", at(1000, 5, 1), at(1000.4, 9, 2), ""},
		{"later start", at(1000, 5, 1), at(1010, 9, 2), "process start time changed"},
		{"fewer tokens", at(1000, 5, 1), at(1000, 4, 1), "counters went backwards"},
		{"fewer requests", at(0, 5, 3), at(0, 6, 1), "counters went backwards"},
		{"figures missing", at(1000, 5, 1), none, ""},
	}
	for _, c := range cases {
		if got := Restarted(&c.prev, &c.cur); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParseSources(t *testing.T) {
	const one = "0 tcp://h:5601 tcp://h:5701 kv\n"
	cases := []struct{ name, body, want string }{
		{"0.32", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5601",` +
			`"replay_endpoint":"tcp://*:5701","buffer_steps":10000,"topic":"kv"}}`, one},
		{"list", `[{"data_parallel_rank":0,"endpoint":"tcp://0.0.0.0:5601","replay_endpoint":"tcp://127.0.0.1:5701",` +
			`"topic":"kv"}]`, one},
		{"wrapped", `{"sources":[{"data_parallel_rank":0,"endpoint":"tcp://localhost:5601",` +
			`"replay_endpoint":"tcp://[::]:5701","topic":"kv"}]}`, one},
		{"ranks, unordered", `{"1":{"endpoint":"tcp://10.0.0.2:1"},"0":{"endpoint":"tcp://*:2","replay_endpoint":null}}`,
			"0 tcp://h:2  \n1 tcp://10.0.0.2:1  \n"},
		{"off", `{"0":{"enable_kv_cache_events":false,"publisher":"null","endpoint":"tcp://*:5601"}}`, ""},
		{"another transport", `[{"transport":"nats","endpoint":"tcp://*:5601"}]`, ""},
		{"none", `{}`, ""},
		{"none, wrapped", `{"sources":[]}`, ""},
		{"not tcp", `[{"endpoint":"ipc:///tmp/x"}]`, "!"},
		{"no port", `[{"endpoint":"tcp://*"}]`, "!"},
		{"port 0", `[{"endpoint":"tcp://*:0"}]`, "!"},
		{"text", `"x"`, "!"},
	}
	for _, c := range cases {
		list, err := parseSources([]byte(c.body), "h")
		got := ""
		for _, s := range list {
			got += fmt.Sprintln(s.Rank, s.Publisher, s.Replay, s.Topic)
		}
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReachable_ipv6(t *testing.T) {
	if got, err := reachable("tcp://*:5", "fd00::1"); got != "tcp://[fd00::1]:5" || err != nil {
		t.Error(got, err)
	}
}

func TestAtLeast(t *testing.T) {
	for v, want := range map[string]bool{"0.10.2": false, "0.11.0": true, "0.32.0+cpu": true, "1.0": true, "": true,
		"0.1.dev99+gabc": true, "0.8.5.post1": false, "x.y": true} {
		if got := atLeast(v, 0, 11); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

func FuzzParseVLLM(f *testing.F) {
	f.Add([]byte("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1\\\"\"} 1.0 5\n" +
		"vllm:num_requests_running{} 3\n#x\n"))
	f.Add([]byte("vllm:engine_sleep_state{sleep_state=\"a\\"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := parseVLLM(text)
		if m.KVUsage < 0 || m.KVUsage > 1 || m.Running < 0 || m.BlockTokens < 0 || m.CacheBlocks < 0 {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzParseSources(f *testing.F) {
	f.Add([]byte(`{"0":{"endpoint":"tcp://*:5601","replay_endpoint":"tcp://*:5701"}}`))
	f.Add([]byte(`{"sources":[{"endpoint":"tcp://[::1]:1"}]}`))
	f.Add([]byte(`{"data":[{"id":"m","max_model_len":5,"parent":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := parseSources(body, "h")
		for _, s := range list {
			if err != nil || !strings.HasPrefix(s.Publisher, "tcp://") || strings.Contains(s.Publisher, "127.0.0.1") {
				t.Errorf("%+v, %v", s, err)
			}
		}
		parseModels(body)
	})
}
