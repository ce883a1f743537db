package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// byteEncoder encodes every byte as one token; it cannot be cut.
type byteEncoder struct{}

func (byteEncoder) Encode(dst []uint32, text []byte) ([]uint32, error) {
	for _, c := range text {
		dst = append(dst, uint32(c))
	}
	return dst, nil
}

// scan scans a body as the router does.
func scan(t testing.TB, op llmapi.Operation, body []byte) *llmapi.Request {
	t.Helper()
	r := new(llmapi.Request)
	if err := r.Scan(op, body); err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return r
}

// TestNormalize_vllm compares normalized messages and tools with the output of
// vLLM's own code (scripts/gen_vllm.py). If vLLM rejects a message, the result may
// be anything, but normalization must not fail.
func TestNormalize_vllm(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "vllm_messages.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Messages []struct {
			Name, Format    string
			Chat, Developer bool
			In, Out         json.RawMessage
		}
		Tools []struct {
			Name    string
			In, Out json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	exact := 0
	for _, c := range golden.Messages {
		src := `{{ messages | tojson }}`
		if c.Developer {
			src += `{# 'developer' #}`
		}
		op := llmapi.OpTokenize
		if c.Chat {
			op = llmapi.OpChat
		}
		got, err := showPrompt(t, Config{Template: src, ContentFormat: c.Format}, op, `{"messages":%s}`, c.In)
		if len(c.Out) > 0 && c.Out[0] == '"' || string(c.Out) == "[]" {
			continue
		}
		exact++
		if want := compact(t, c.Out); got != want || err != nil {
			t.Errorf("%s (%s, chat %v, developer %v): %v\n got %s\nwant %s", c.Name, c.Format, c.Chat, c.Developer, err, got,
				want)
		}
	}
	for _, c := range golden.Tools {
		got, err := showPrompt(t, Config{Template: `{{ tools | tojson }}`}, llmapi.OpChat,
			`{"messages":[{"role":"user","content":"x"}],"tools":%s}`, c.In)
		if len(c.Out) > 0 && c.Out[0] == '"' {
			if err == nil {
				t.Errorf("tools %s: exact although the engine rejects them", c.Name)
			}
			continue
		}
		exact++
		if want := compact(t, c.Out); got != want || err != nil {
			t.Errorf("tools %s: %v\n got %s\nwant %s", c.Name, err, got, want)
		}
	}
	if exact < 200 {
		t.Errorf("%d cases, want more", exact)
	}
}

// showPrompt returns the prompt of a body.
func showPrompt(t *testing.T, cfg Config, op llmapi.Operation, format string, a ...any) (string, error) {
	t.Helper()
	cfg.Encoder = byteEncoder{}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m.Prompt(scan(t, op, fmt.Appendf(nil, format, a...)))
}

// compact rewrites JSON as tojson does.
func compact(t *testing.T, raw []byte) string {
	t.Helper()
	v, err := jinja.DecodeJSON(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := jinja.Compile(`{{ x | tojson }}`, jinja.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out jinja.Output
	if err := c.Render(map[string]jinja.Value{"x": v}, time.Time{}, &out); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out.Append(nil)))
}

// TestAPIs_vllm compares the prompts of bodies of the Anthropic and the responses API
// with the output of vLLM's own code (scripts/gen_vllm_apis.py). It lists the bodies
// that vLLM accepts and this package does not render exactly. If vLLM rejects a body,
// the result may be anything, but conversion must not fail.
func TestAPIs_vllm(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "vllm_apis.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Name, API, Format string
		Merge, Developer  bool
		In                json.RawMessage
		Out               json.RawMessage
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	// The engine renders these exactly and this package does not: media, Python's own
	// representation of a list, ids derived from the time, tools that change, tools in
	// name spaces, and messages to be continued, which a template that prints JSON does
	// not support (TestPrepare_unfinished).
	inexact := map[string]string{
		"result image": reasonMedia, "image": reasonMedia, "output image": reasonMedia,
		"result list of assistant": reasonMessage,
		"use without id":           reasonMessage, "addition": reasonToolChange, "tools namespace": reasonTools,
		"unfinished": reasonContinue, "unfinished reasoning": reasonContinue, "unfinished text": reasonContinue,
		"no items": reasonNoMessages,
	}
	exact, seen := 0, map[string]bool{}
	for _, c := range golden {
		op, src := llmapi.OpMessages, "{# 'developer' #}"
		if c.API == "responses" {
			op = llmapi.OpResponses
			if !c.Developer {
				src = ""
			}
		}
		// The tag content.continue keeps a final message separate.
		src += `{"messages":{{ messages | tojson }},"tools":{{ tools | default(none) | tojson }},"effort":{{ ` +
			`reasoning_effort | default(none) | tojson }}`
		if c.API == "responses" {
			src += `,"continue":{{ (not add_generation_prompt) | tojson }}`
		}
		if c.Merge {
			src = `{% for m in messages %}{% if m.role == "system" and not loop.first %}{{ raise_exception("system first") ` +
				`}}{% endif %}{% endfor %}` + src
		}
		got, err := showPrompt(t, Config{Template: src + "}", ContentFormat: c.Format}, op, "%s", c.In)
		if c.Out[0] == '"' {
			continue
		}
		if why, ok := inexact[c.Name]; ok {
			seen[c.Name] = true
			if e, ok := errors.AsType[*InexactError](err); !ok || e.Reason != why {
				t.Errorf("%s (%s): got %v %s, want %q", c.Name, c.Format, err, got, why)
			}
			continue
		}
		exact++
		if want := compact(t, c.Out); err != nil || compact(t, []byte(got)) != want {
			t.Errorf("%s (%s, %s, merge %v, developer %v): %v\n got %s\nwant %s", c.API, c.Name, c.Format, c.Merge,
				c.Developer, err, got, want)
		}
	}
	if len(seen) != len(inexact) {
		t.Errorf("of %d exceptions %d occur", len(inexact), len(seen))
	}
	t.Logf("%d of %d bodies", exact, len(golden))
	if exact < 185 {
		t.Errorf("only %d of %d bodies compared", exact, len(golden))
	}
}
