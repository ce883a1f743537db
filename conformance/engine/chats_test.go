//go:build engine

package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// chat is one conversation that grows turn by turn.
type chat struct {
	name     string
	base     map[string]any // members besides messages
	messages []any
	turns    int
	user     func(turn int) any // content of the next user message
	engine   string             // where the last turn went
}

// body is the request of the next turn.
func (c *chat) body(turn int) map[string]any {
	c.messages = append(c.messages, map[string]any{"role": "user", "content": c.user(turn)})
	b := map[string]any{"model": "tiny", "messages": c.messages, "temperature": 0, "max_tokens": 12}
	for k, v := range c.base {
		b[k] = v
	}
	return b
}

func (c *chat) answer(text string) {
	c.messages = append(c.messages, map[string]any{"role": "assistant", "content": text})
}

var words = strings.Fields("the of river engine cache block prefix router winter signal copper lantern quiet measure " +
	"orbit field 東京 日本語 привет данные γράμμα naïve café 😀 👩‍💻 مرحبا 안녕하세요 e\u0301 ﬁ \u00a0x 12345 3.14159 don't we'll " +
	"I'VE")

func text(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString([]string{" ", " ", " ", "\n", ", ", ".\n\n", "  "}[r.IntN(7)])
		}
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

func tools(r *rand.Rand, n int) []any {
	var out []any
	for i := range n {
		out = append(out, map[string]any{"type": "function", "function": map[string]any{
			"name": fmt.Sprintf("tool_%d", i), "description": text(r, 12),
			"parameters": map[string]any{"type": "object", "properties": map[string]any{
				"query": map[string]any{"type": "string", "description": text(r, 5)},
				"limit": map[string]any{"type": "integer", "default": 10},
			}, "required": []string{"query"}},
		}})
	}
	return out
}

// toolRound is a finished tool call in the history of a conversation.
func toolRound(r *rand.Rand, id string) []any {
	return []any{
		map[string]any{"role": "user", "content": text(r, 10)},
		map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function",
			"function": map[string]any{"name": "tool_0", "arguments": `{"query": "` + strings.ReplaceAll(text(r, 3), "\n",
				" ") + `", "limit": 3}`}}}},
		map[string]any{"role": "tool", "tool_call_id": id, "content": text(r, 40)},
	}
}

// chats makes n conversations of many kinds.
func chats(n int, turns int) []*chat {
	r := rand.New(rand.NewPCG(20, 26))
	system := text(r, 300)
	shared := tools(r, 4)
	var out []*chat
	for i := range n {
		c := &chat{name: fmt.Sprintf("chat %d", i), turns: turns, base: map[string]any{}}
		r := rand.New(rand.NewPCG(uint64(i), 7))
		long := 20 + r.IntN(60)
		c.user = func(turn int) any { return text(r, long) }
		switch i % 6 {
		case 0: // shared system prompt
			c.messages = append(c.messages, map[string]any{"role": "system", "content": system})
		case 1: // shared tools, a tool round in the history
			c.base["tools"] = shared
			c.messages = append(c.messages, map[string]any{"role": "system", "content": system})
			c.messages = append(c.messages, toolRound(r, fmt.Sprintf("call_%d", i))...)
		case 2: // parts
			c.user = func(turn int) any {
				return []any{map[string]any{"type": "text", "text": text(r, long)}, map[string]any{"type": "text", "text": text(r,
					9)}}
			}
		case 3: // long
			c.messages = append(c.messages, map[string]any{"role": "system", "content": text(r, 900)})
		case 4: // short, template arguments
			c.user = func(turn int) any { return text(r, 6) }
			c.base["chat_template_kwargs"] = map[string]any{"enable_thinking": false}
		case 5: // reasoning kept in the history
			c.messages = append(c.messages, map[string]any{"role": "user", "content": text(r, 30)},
				map[string]any{"role": "assistant", "reasoning": text(r, 20), "content": text(r, 30)})
		}
		out = append(out, c)
	}
	return out
}
