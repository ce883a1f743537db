package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// TestPartial: media end the chain where they are, and several prompts have that of the
// first; their tokens are those of all text.
func TestPartial(t *testing.T) {
	m := demoModel(t, nil)
	blocks := func(op llmapi.Operation, body string) (p tokenizer.Prompt) {
		t.Helper()
		var r llmapi.Request
		if err := r.Scan(op, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := m.Blocks(&r, &tokenizer.Query{Salt: "s", Sizes: []int{16}}, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	system := strings.Repeat("You describe pictures in few words. ", 60)
	data := "data:image/png;base64," + strings.Repeat("QUJD", 20000)
	conversation := func(parts string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},`+
			`{"role":"user","content":%s}]}`, system, parts)
	}
	plain := blocks(llmapi.OpChat, conversation(`"What is this?"`))
	for name, body := range map[string]struct {
		op   llmapi.Operation
		body string
	}{
		"chat": {llmapi.OpChat, conversation(fmt.Sprintf(
			`[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":%q}}]`, data))},
		"image first": {llmapi.OpChat, conversation(fmt.Sprintf(
			`[{"image_url":{"url":%q},"type":"image_url"},{"type":"text","text":"What is this?"}]`, data))},
		"address": {llmapi.OpChat, conversation(
			`[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]`)},
	} {
		p := blocks(body.op, body.body)
		n := len(p.Chains[0])
		if p.Exact || !p.Partial || p.Reason != "multimodal content" || p.MediaTokens != llmapi.MediaTokens {
			t.Errorf("%s: %+v", name, p)
			continue
		}
		if n < 10 || n > len(plain.Chains[0]) || !slices.Equal(p.Chains[0], plain.Chains[0][:n]) {
			t.Errorf("%s: %d blocks, not those of the text before", name, n)
		}
		if d := p.Tokens - plain.Tokens; d < -8 || d > 8 {
			t.Errorf("%s: %d tokens of text, want about %d", name, p.Tokens, plain.Tokens)
		}
	}
	one := blocks(llmapi.OpCompletions, fmt.Sprintf(`{"model":"m","prompt":%q}`, system))
	two := blocks(llmapi.OpCompletions, fmt.Sprintf(`{"model":"m","prompt":[%q,%q]}`, system, system+"And more."))
	if two.Exact || !two.Partial || !slices.Equal(two.Chains[0], one.Chains[0]) || two.Tokens < 2*one.Tokens-4 {
		t.Errorf("two prompts: %+v, one has %d tokens in %d blocks", two, one.Tokens, len(one.Chains[0]))
	}
}
