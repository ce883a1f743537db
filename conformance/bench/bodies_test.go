//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

var vocabulary = strings.Fields("the of and to in a is that for it as was with be by on not he his but at are this " +
	"have from or had an they which one you were all her she there would their we him been has when who will no more " +
	"if out so said what up its about than into them can only other time new some could these two may first then do " +
	"any like my now over such our man me even most made after also did many fore must through years where much your " +
	"way well down should because each just those people")

// prose returns text without escapes, as few real bodies are.
func prose(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}

// code returns text with quotes, tabs and line ends as source code has them.
func code(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		w := func() string { return vocabulary[r.IntN(len(vocabulary))] }
		fmt.Fprintf(&b, "func %s%d(%s string) error {\n\tif %s != nil {\n\t\treturn fmt.Errorf(\"%s %s: %%w\", err)\n\t}\n"+
			"\treturn %s.%s(\"%s\")\n}\n\n", w(), r.IntN(1000), w(), w(), w(), w(), w(), w(), w())
	}
	return b.String()
}

// message is a message of a chat body, its content or its call of a tool.
type message struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	ID      string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// agent returns the messages of a coding agent: calls of tools and what they returned.
func agent(r *rand.Rand, bytes int) (out []message) {
	system := prose(r, 8000)
	out = append(out, message{Role: "system", Content: &system})
	for sum, k := len(system), 0; sum < bytes; k++ {
		task, file, id := prose(r, 300), code(r, 3000), fmt.Sprintf("call_%d", k)
		call := toolCall{ID: id, Type: "function"}
		call.Function.Name = "edit_file"
		arguments, err := json.Marshal(map[string]string{"path": "/src/main.go", "old": code(r, 400), "new": code(r, 500)})
		if err != nil {
			panic(err)
		}
		call.Function.Arguments = string(arguments)
		out = append(out, message{Role: "user", Content: &task}, message{Role: "assistant", Calls: []toolCall{call}},
			message{Role: "tool", Content: &file, ID: id})
		sum += len(task) + len(file) + len(arguments)
	}
	return out
}

// chat returns the body of a chat request.
func chat(stream bool, messages ...message) []byte {
	b, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "max_tokens": 64, "messages": messages})
	if err != nil {
		panic(err)
	}
	return b
}

// user returns a message of the user.
func user(content string) message { return message{Role: "user", Content: &content} }
