// Package parity compares the prompts of package chat with those of a running
// engine, token by token, and generates conversations for the comparison.
package parity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
)

// Report counts the bodies of a comparison by result.
type Report struct {
	Equal     int // the same ids
	Refused   int // the engine rejects the body, so there is nothing to compare
	Inexact   int // the engine accepts a body whose prompt package chat does not compute exactly
	Different int // other ids
	Faults    []string
}

// maxFaults limits Report.Faults.
const maxFaults = 8

func (r *Report) String() string {
	return fmt.Sprintf("%d equal, %d refused by the engine, %d not exact, %d different", r.Equal, r.Refused, r.Inexact,
		r.Different)
}

func (r *Report) fault(format string, a ...any) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, a...))
	}
}

// Compare sends bodies to POST base/tokenize of an engine (vLLM's API: bodies
// with messages or with prompt) and compares the returned ids with those of model.
// The error is about the engine alone: it cannot be reached or its response is not
// a list of tokens.
func Compare(
	ctx context.Context, client *http.Client, base string, model *chat.Model, bodies [][]byte,
) (*Report, error) {
	report := &Report{}
	for n, body := range bodies {
		want, refused, err := ask(ctx, client, base+"/tokenize", body)
		if err != nil {
			return report, err
		}
		if refused != "" {
			report.Refused++
			continue
		}
		var r llmapi.Request
		if err := r.Scan(llmapi.OpTokenize, body); err != nil {
			report.Inexact++
			report.fault("body %d: %v", n, err)
			continue
		}
		got, err := model.Tokens(&r, nil)
		switch {
		case err != nil:
			report.Inexact++
			report.fault("body %d: %v", n, err)
		case difference(got, want) >= 0:
			report.Different++
			report.fault("body %d: %s", n, show(got, want))
		default:
			report.Equal++
		}
	}
	return report, nil
}

// ask returns the engine's ids, or its message if it rejects the body.
func ask(ctx context.Context, client *http.Client, url string, body []byte) (ids []uint32, refused string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, "", fmt.Errorf("parity: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("parity: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, "", fmt.Errorf("parity: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, resp.Status, nil
	}
	var answer struct{ Tokens []uint32 }
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, "", fmt.Errorf("parity: response of the engine: %w", err)
	}
	return answer.Tokens, "", nil
}

// difference returns the position at which a and b differ, or -1.
func difference(a, b []uint32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

func show(got, want []uint32) string {
	i := difference(got, want)
	cut := func(x []uint32) []uint32 { return x[max(0, i-4):min(len(x), i+8)] }
	return fmt.Sprintf("at token %d of %d: ours …%v…, engine …%v…", i, len(want), cut(got), cut(want))
}
