package parity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Conversation is a generated conversation of one of several kinds.
type Conversation struct {
	Kind     string
	Messages []json.RawMessage
	rest     string // the other members of its bodies, each preceded by a comma
}

// Body returns the request body of the first n messages. The model's name may
// be "".
func (c *Conversation) Body(model string, n int) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	if model != "" {
		fmt.Fprintf(&b, `"model":%q,`, model)
	}
	b.WriteString(`"messages":[`)
	for i, m := range c.Messages[:n] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(m)
	}
	b.WriteString("]" + c.rest + "}")
	return b.Bytes()
}

// Kinds are the kinds of conversation that Conversations cycles through.
var Kinds = []string{"plain", "system", "tools", "toolcalls", "reasoning", "think", "parts", "long", "developer",
	"continued", "odd"}

// Conversations generates n conversations, the same ones for the same seed: turns of
// text in several scripts with line ends, markup and spelled-out special
// tokens, tools, tool calls, reasoning, parts.
func Conversations(seed uint64, n int) []Conversation {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1))}
	out := make([]Conversation, n)
	for i := range out {
		out[i] = g.conversation(Kinds[i%len(Kinds)])
	}
	return out
}

type generator struct {
	r     *rand.Rand
	calls int
}

var words = strings.Split(`the quick brown fox jumps over lazy dog while Zürich naïve 日本語 данные 🤖 code() {"a": `+
	`[1, 2]} <b>x</b> 'q' "d" {{ x }} {% y %} \n a	b 3.14 <|im_end|> <|eot_id|> <|im_start|> [INST] <think> </think> `+
	`<tool_call> &amp; ﷽ é e`+"\u0301"+` 1234567 don't I'LL ... --- x=y;`, " ")

func (g *generator) text(lo, hi int) string {
	var b strings.Builder
	for i := range lo + g.r.IntN(hi-lo+1) {
		if i > 0 {
			switch g.r.IntN(14) {
			case 0:
				b.WriteString("\n")
			case 1:
				b.WriteString("\n\n  ")
			case 2:
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteString(words[g.r.IntN(len(words))])
	}
	s := b.String()
	if g.r.IntN(5) == 0 {
		s = []string{" ", "\n", "\n\n  ", "\t"}[g.r.IntN(4)] + s + []string{" ", "\n", "  \n", ""}[g.r.IntN(4)]
	}
	return s
}

type object = map[string]any

func (g *generator) conversation(kind string) Conversation {
	c := Conversation{Kind: kind}
	add := func(m object) {
		b, err := json.Marshal(m)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		c.Messages = append(c.Messages, b)
	}
	switch kind {
	case "system", "long", "toolcalls", "continued":
		add(object{"role": "system", "content": g.text(3, 60)})
	case "developer":
		add(object{"role": "system", "content": g.text(3, 30)})
		add(object{"role": "developer", "content": g.text(3, 30)})
	case "odd":
		add(object{"role": "system", "content": "x-anthropic-billing-header: cch=1;\n" + g.text(3, 30)})
	}
	for range 1 + g.r.IntN(6) {
		g.turn(kind, add)
	}
	if kind == "continued" {
		add(object{"role": "user", "content": g.text(1, 40)})
		add(object{"role": "assistant", "content": g.text(1, 40)})
		c.rest = `,"add_generation_prompt":false,"continue_final_message":true`
		return c
	}
	add(object{"role": "user", "content": g.content(kind)})
	c.rest = g.members(kind)
	return c
}

// content returns the content of a user's message.
func (g *generator) content(kind string) any {
	switch kind {
	case "parts":
		var parts []object
		for range 1 + g.r.IntN(3) {
			parts = append(parts, object{"type": "text", "text": g.text(1, 40)})
		}
		return parts
	case "long":
		return g.text(200, 900)
	}
	return g.text(1, 40)
}

func (g *generator) turn(kind string, add func(object)) {
	add(object{"role": "user", "content": g.content(kind)})
	if kind == "toolcalls" {
		for range 1 + g.r.IntN(2) {
			g.toolRound(add)
		}
	}
	a := object{"role": "assistant", "content": g.text(1, 60)}
	switch kind {
	case "long":
		a["content"] = g.text(200, 900)
	case "think":
		a["content"] = "<think>\n" + g.text(2, 20) + "\n</think>\n\n" + g.text(1, 40)
	case "reasoning":
		a["reasoning"] = g.text(2, 20)
	case "odd":
		a["tool_calls"], a["name"], a["unknown"] = []any{}, "al", object{"x": 1}
	}
	add(a)
}

func (g *generator) toolRound(add func(object)) {
	var calls, results []object
	for range 1 + g.r.IntN(2) {
		g.calls++
		id := fmt.Sprintf("call%05d", g.calls)
		calls = append(calls, object{"id": id, "type": "function",
			"function": object{"name": []string{"get_weather", "apply_patch"}[g.r.IntN(2)], "arguments": g.arguments()}})
		results = append(results, object{"role": "tool", "tool_call_id": id, "content": g.text(1, 12)})
	}
	m := object{"role": "assistant", "content": g.text(1, 8), "tool_calls": calls}
	if g.r.IntN(2) == 0 {
		m["content"] = nil
	}
	add(m)
	for _, r := range results {
		if g.r.IntN(3) == 0 {
			r["content"] = []object{{"type": "text", "text": g.text(1, 5)}, {"type": "text", "text": "21"}}
		}
		add(r)
	}
}

func (g *generator) arguments() string {
	if g.r.IntN(8) == 0 {
		return []string{"", "[1]", `{"a": `, "null"}[g.r.IntN(4)]
	}
	values := []string{`"Paris"`, "3", "0.25", "1.0", "1e-7", "null", "true", `["a",1]`, `{"k":"v"}`,
		`"two\nlines \"q\""`, "12345678901234567890"}
	s := "{"
	for i, k := range []string{"unit", "location", "days", "é"}[:1+g.r.IntN(4)] {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%q: %s", k, values[g.r.IntN(len(values))])
	}
	return s + "}"
}

const tools = `[{"type":"function","function":{"name":"get_weather","description":"Get the <current> weather & ` +
	`more for a 'city'","parameters":{"type":"object","properties":{"location":{"type":"string","description":"City, ` +
	`e.g. São Paulo 🌧 \"quoted\""},"unit":{"type":"string","enum":["celsius","fahrenheit"],"default":"celsius"},` +
	`"days":{"type":"integer","minimum":1},"threshold":{"type":"number","default":0.50}},"required":["location"],` +
	`"additionalProperties":false}}},{"function":{"parameters":{"type":"object","$defs":{"z":{},"a":{}},` +
	`"big":9007199254740993,"sci":1e-7},"name":"apply_patch"},"type":"function"}]`

// members returns the other members of a body.
func (g *generator) members(kind string) string {
	s := ""
	if kind == "tools" || kind == "toolcalls" {
		s = `,"tools":` + tools
	}
	if g.r.IntN(4) == 0 {
		s += `,"add_generation_prompt":false`
	}
	if (kind == "think" || kind == "reasoning") && g.r.IntN(2) == 0 {
		s += fmt.Sprintf(`,"chat_template_kwargs":{"enable_thinking":%v}`, g.r.IntN(2) == 0)
	}
	return s
}
