package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// adminClient talks to a running router.
type adminClient struct{ url, token string }

// adminFlags adds --admin and --token, which default to KVASIR_ADMIN and
// KVASIR_TOKEN.
func adminFlags(c *cobra.Command) *adminClient {
	a := new(adminClient)
	c.Flags().StringVar(&a.url, "admin", envOr("KVASIR_ADMIN", "http://127.0.0.1:9090"), "admin address of the router (KVASIR_ADMIN)")
	c.Flags().StringVar(&a.token, "token", "", "admin token (KVASIR_TOKEN)")
	return a
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// maxAnswer bounds what is read of an admin answer.
const maxAnswer = 64 << 20

// call does one admin request and returns the body of a 2xx answer.
func (a *adminClient) call(method, path string, body []byte) ([]byte, error) {
	token := a.token
	if token == "" {
		token = os.Getenv("KVASIR_TOKEN")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(a.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, exit(exitUsage, "--admin %s: %v", a.url, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the path, which may hold a pasted key
		}
		return nil, exit(exitUnreachable, "no router at %s: %v (set --admin or KVASIR_ADMIN)", a.url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, exit(exitUnreachable, "%s: %v", a.url, err)
	}
	if res.StatusCode/100 != 2 {
		return nil, exit(exitNo, "%s", adminError(res.StatusCode, b))
	}
	return b, nil
}

// adminError returns the message of an error answer.
func adminError(status int, b []byte) string {
	var e struct {
		Error struct{ Message string } `json:"error"`
	}
	if json.Unmarshal(b, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	if status == http.StatusUnauthorized {
		return "the router refused the token (set --token or KVASIR_TOKEN)"
	}
	return fmt.Sprintf("the router answered %d: %.300s", status, b)
}

// printJSON writes b indented.
func printJSON(w io.Writer, b []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return fmt.Errorf("the router's answer is no JSON: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}
