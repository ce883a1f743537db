package llmapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// mediaNamed is what a name of media, as JSON spells it, becomes under a salt.
func mediaNamed(salt, raw string) string {
	h := hmac.New(sha256.New, []byte(salt))
	h.Write([]byte(raw))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// One tenant's image cannot be requested, nor another put in its place, by its
// name in the engine's cache.
func TestMediaNames(t *testing.T) {
	for _, op := range []Operation{OpChat, OpResponses, OpTokenize, OpMessages} {
		list := "messages"
		if op == OpResponses {
			list = "input"
		}
		f := func(content, want string) {
			t.Helper()
			body := `{"model":"m","` + list + `":[ {"role":"user", "content" : ` + content +
				`} ,{"role":"assistant","content":"uuid"}]}`
			want = strings.Replace(body, content, want, 1)
			if got := edited(t, op, body, Rewrite{Salt: "s"}); got != want {
				t.Errorf("%v: got  %s\nwant %s", op, got, want)
			}
			if got := edited(t, op, body, Rewrite{}); got != body {
				t.Errorf("%v: in the public namespace names stay: got %s", op, got)
			}
			if a, b := edited(t, op, body, Rewrite{Salt: "a"}), edited(t, op, body, Rewrite{Salt: "b"}); want != body && a == b {
				t.Errorf("%v: two namespaces share a name in %s", op, a)
			}
		}
		name := func(raw string) string { return `"` + mediaNamed("s", raw) + `"` }
		f(`[{"type":"image_url","image_url":null,"uuid":"sku-1"}]`,
			`[{"type":"image_url","image_url":null,"uuid":`+name(`"sku-1"`)+`}]`)
		f(`[{"uuid": "a","uuid":"b"},{"uu\u0069d":"c"}]`,
			`[{"uuid": `+name(`"a"`)+`,"uuid":`+name(`"b"`)+`},{"uu\u0069d":`+name(`"c"`)+`}]`)
		f(`[{"\u0075\u0075i\u0064" :7 }]`, `[{"\u0075\u0075i\u0064" :`+name(`7`)+` }]`)
		f(`[{"uuid":null},{},[],1,"uuid"]`, `[{"uuid":null},{},[],1,"uuid"]`)
		f(`[{"type":"text","text":"\"uuid\":\"x\"","UUID":"x","uuid2":"x"}]`,
			`[{"type":"text","text":"\"uuid\":\"x\"","UUID":"x","uuid2":"x"}]`)
	}
}

// maskMedia hides the names of media in decoded messages: what they become goes by
// their spelling, which is lost there.
func maskMedia(m map[string]any) map[string]any {
	list, _ := m["messages"].([]any)
	for _, x := range list {
		message, _ := x.(map[string]any)
		for _, v := range message {
			parts, _ := v.([]any)
			for _, p := range parts {
				if part, ok := p.(map[string]any); ok && part["uuid"] != nil {
					part["uuid"] = "a name"
				}
			}
		}
	}
	return m
}
