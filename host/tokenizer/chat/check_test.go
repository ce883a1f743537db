package chat_test

import (
	"context"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat/parity"
)

// liar is an encoder with wrong cuts, so that encoded parts differ from the whole.
type liar struct{ slowEncoder }

func (l *liar) Cut(text []byte) int {
	c := len(text) / 2
	for c > 0 && !utf8.RuneStart(text[c]) {
		c--
	}
	return c
}

// TestCheck_agrees checks every second request, with correct results.
func TestCheck_agrees(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) { c.CheckEvery = 2 })
	var p tokenizer.Prompt
	ran := 0
	for _, c := range parity.Conversations(1, 11) {
		for n := 1; n <= len(c.Messages); n++ {
			if err := m.Blocks(scan(t, llmapi.OpChat, c.Body("m", n)), &tokenizer.Query{Salt: "s", Sizes: []int{16, 32}},
				&p); err != nil {
				t.Fatal(err)
			}
			if ctx, cancel := context.WithCancel(t.Context()); n%2 == 0 {
				cancel()
				if x, err := m.NextCheck(ctx); err == nil {
					ran++
					if !x.Run() {
						t.Fatal("a check differs")
					}
				} else if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			} else {
				cancel()
			}
		}
	}
	s := m.Stats()
	if ran == 0 || s.Checks != int64(ran) || s.CheckFailures != 0 || !s.Exact {
		t.Errorf("%d checks ran, %+v", ran, s)
	}
}

// TestCheck_differs stops using a memo that gave a wrong result.
func TestCheck_differs(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) {
		c.CheckEvery = 1
		l := &liar{}
		l.Encoder, l.mark = c.Encoder, []byte("never said")
		c.Encoder = l
	})
	c := parity.Conversations(1, 8)[7]
	body := c.Body("m", len(c.Messages))
	q := &tokenizer.Query{Sizes: []int{16}}
	var p tokenizer.Prompt
	for range 5 {
		if err := m.Blocks(scan(t, llmapi.OpChat, body), q, &p); err != nil || !p.Exact {
			t.Fatal(err, p.Reason)
		}
	}
	if s := m.Stats(); s.ChecksSkipped != 3 {
		t.Errorf("%d checks skipped, want 3", s.ChecksSkipped)
	}
	x, err := m.NextCheck(t.Context())
	if err != nil || x.Run() {
		t.Fatalf("%v, or the check agrees", err)
	}
	s := m.Stats()
	if s.CheckFailures != 1 || s.Exact || s.Reason == "" || s.Bytes != 0 || s.Namespaces != 0 {
		t.Errorf("%+v", s)
	}
	if err := m.Blocks(scan(t, llmapi.OpChat, body), q, &p); err != nil || p.Exact || p.Reason != s.Reason ||
		len(p.Chains[0]) != 0 {
		t.Errorf("%v, exact %v, reason %q", err, p.Exact, p.Reason)
	}
}
