package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/admin"
)

// router is the admin API of a running router, as the flags name it.
type router struct{ url, token string }

// routerFlags adds --admin and --token, which default to KVASIR_ADMIN and
// KVASIR_TOKEN.
func routerFlags(c *cobra.Command) *router {
	a := new(router)
	c.Flags().StringVar(&a.url, "admin", envOr("KVASIR_ADMIN", "http://127.0.0.1:9090"),
		"admin address of the router (KVASIR_ADMIN)")
	c.Flags().StringVar(&a.token, "token", "", "admin token, or an API key with the scope that is needed (KVASIR_TOKEN)")
	return a
}

func envOr(name, def string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return def
}

// requestTime bounds one request to a router: above what it takes to compile a
// plugin or to test a policy.
const requestTime = 30 * time.Second

// client returns the client of the admin API.
func (a *router) client() *admin.Client {
	token := a.token
	if token == "" {
		token = os.Getenv("KVASIR_TOKEN")
	}
	return &admin.Client{URL: a.url, Token: token}
}

// ask has a router do an operation.
func ask[Q, R any](a *router, o admin.Operation[Q, R], q *Q) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	v, err := o.Call(ctx, a.client(), q)
	return v, routerError(err)
}

// show has a router do an operation and prints the response: as JSON, or by text.
func show[Q, R any](cmd *cobra.Command, a *router, output string, o admin.Operation[Q, R], q *Q,
	text func(w io.Writer, v R) error) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	b, err := o.Raw(ctx, a.client(), q)
	if err != nil {
		return routerError(err)
	}
	if output == "json" {
		return printJSON(cmd.OutOrStdout(), b)
	}
	var v R
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("response of the router: %w", err)
	}
	return text(cmd.OutOrStdout(), v)
}

// routerError gives an error of the client its exit code, and adds the fix if the
// command line has one.
func routerError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*admin.UnreachableError](err); ok {
		return exit(exitUnreachable, "%v (set --admin or KVASIR_ADMIN)", err)
	}
	e, ok := errors.AsType[*admin.StatusError](err)
	switch {
	case !ok:
		return exit(exitUsage, "%v", err)
	case e.Status == http.StatusUnauthorized:
		return exit(exitNo, "the router does not accept the token: set --token or KVASIR_TOKEN to the admin token or to an "+
			"API key")
	}
	return exit(exitNo, "%s", e.Message)
}

// printJSON writes b indented.
func printJSON(w io.Writer, b []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return fmt.Errorf("response of the router: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}
