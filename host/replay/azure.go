package replay

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// azureTime is the form of the times of Azure's traces (2023 and 2024).
const azureTime = "2006-01-02 15:04:05.9999999"

// OpenAzure reads a trace of Azure's LLM inference services (CSV with the columns
// TIMESTAMP, ContextTokens, GeneratedTokens; gzip when the name ends in .gz): an open
// load without a word about prefixes, so that no two requests share one.
func OpenAzure(path string) (*Trace, error) { return open(path, ReadAzure) }

// ReadAzure is OpenAzure for a stream.
func ReadAzure(r io.Reader) (*Trace, error) {
	t := &Trace{BlockTokens: GeneratedBlock, Turnless: true}
	s := bufio.NewScanner(r)
	var first time.Time
	for line := 1; s.Scan(); line++ {
		f := strings.Split(strings.TrimSpace(s.Text()), ",")
		if line == 1 {
			if len(f) != 3 || !strings.EqualFold(f[0], "TIMESTAMP") || f[1] != "ContextTokens" || f[2] != "GeneratedTokens" {
				return nil, fmt.Errorf("%w: line 1: want the columns TIMESTAMP,ContextTokens,GeneratedTokens, got %.100q",
					ErrFormat, s.Text())
			}
			continue
		}
		if len(f) == 1 && f[0] == "" {
			continue
		}
		if len(f) != 3 {
			return nil, fmt.Errorf("%w: line %d: %d columns, want 3", ErrFormat, line, len(f))
		}
		at, err := time.Parse(azureTime, strings.TrimSuffix(f[0], "+00:00"))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: time %.60q, want the form %s", ErrFormat, line, f[0], azureTime)
		}
		in, err1 := strconv.Atoi(f[1])
		out, err2 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil || in < 1 || out < 0 || in > maxTokens || out > maxTokens {
			return nil, fmt.Errorf("%w: line %d: %.20q and %.20q tokens", ErrFormat, line, f[1], f[2])
		}
		if first.IsZero() {
			first = at
		}
		t.Conversations = append(t.Conversations, Conversation{Name: fmt.Sprint("request ", line-1),
			Start: max(0, at.Sub(first).Seconds()), Requests: []Request{{Tokens: in, Output: max(1, out)}}})
		if len(t.Conversations) > maxRequests {
			return nil, fmt.Errorf("%w: line %d: %v", ErrFormat, line, errTooMany)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	t.sort()
	return t, nil
}

// Bounds of what is read: they keep a trace within a few gigabytes.
const (
	maxRequests = 5_000_000
	maxTokens   = 100_000_000 // of one prompt or answer
)

var errTooMany = fmt.Errorf("more than %d requests: split the file", maxRequests)
