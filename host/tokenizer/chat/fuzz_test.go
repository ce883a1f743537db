package chat_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat/parity"
)

// FuzzBlocks sends any body, each twice, through one memo that lives as long as
// the process, and compares the result with the whole computation.
func FuzzBlocks(f *testing.F) {
	for i, c := range parity.Conversations(77, 22) {
		f.Add(uint8(i), c.Body("m", len(c.Messages)))
	}
	f.Add(uint8(1), []byte(`{"prompt":"a\nb <|im_start|> c"}`))
	f.Add(uint8(1), []byte(`{"prompt":[1,2,3]}`))
	raw, err := os.ReadFile(filepath.Join("testdata", "vllm_apis.json"))
	if err != nil {
		f.Fatal(err)
	}
	var bodies []struct {
		API string
		In  json.RawMessage
	}
	if err := json.Unmarshal(raw, &bodies); err != nil {
		f.Fatal(err)
	}
	for i, b := range bodies {
		op := 9 // of ops, times the models
		if b.API == "messages" {
			op = 12
		}
		f.Add(uint8(op+i%3), []byte(b.In))
	}
	models := []*chat.Model{
		demoModel(f, func(c *chat.Config) { c.BudgetBytes = 4 << 20 }),
		demoModel(f, func(c *chat.Config) { c.BudgetBytes = 4 << 20; c.Template = templates["moving"] }),
		demoModel(f, func(c *chat.Config) { c.BudgetBytes = 4 << 20; c.Template = templates["parts"] }),
	}
	ops := []llmapi.Operation{llmapi.OpChat, llmapi.OpCompletions, llmapi.OpTokenize, llmapi.OpResponses,
		llmapi.OpMessages, llmapi.OpCountTokens}
	q := &tokenizer.Query{Sizes: []int{4, 16}}
	f.Fuzz(func(t *testing.T, pick uint8, body []byte) {
		m, op := models[int(pick)%len(models)], ops[int(pick)/len(models)%len(ops)]
		r := new(llmapi.Request)
		if r.Scan(op, body) != nil {
			return
		}
		var p tokenizer.Prompt
		for range 2 {
			ask(t, m, op, body, q, &p)
		}
	})
}
