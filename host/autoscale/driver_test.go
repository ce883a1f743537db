package autoscale

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var order = &Order{Key: "p-1-7", Pool: "p", Desired: 3, Remove: []string{"a"}, Current: []string{"a", "b"},
	Reason: "work", Fence: 1}

// script is a Command that runs a shell script with the file OUT to write to.
func script(t *testing.T, text string) (*Command, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "driver.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &Command{Argv: []string{path}, Env: []string{"OUT=" + filepath.Join(dir, "out"), "PATH=" + os.Getenv("PATH")}},
		filepath.Join(dir, "out")
}

func TestCommand(t *testing.T) {
	c, out := script(t, `cat >"$OUT"; echo '{"machines":[{"id":"b","url":"http://10.0.0.2:8000","state":"ready"}]}'`)
	a, err := c.Apply(t.Context(), order)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Machines) != 1 || a.Machines[0] != (Machine{ID: "b", URL: "http://10.0.0.2:8000", State: "ready"}) {
		t.Errorf("answer %+v", a)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"op":"apply","key":"p-1-7","pool":"p","desired":3,"remove":["a"],"current":["a","b"],` +
		`"reason":"work","fence":1}`
	if string(b) != want {
		t.Errorf("the command got\n%s\nwant\n%s", b, want)
	}
	if _, err := c.List(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if b, _ = os.ReadFile(out); !strings.HasPrefix(string(b), `{"op":"list",`) {
		t.Errorf("list: the command got %s", b)
	}
}

func TestCommand_bad(t *testing.T) {
	cases := []struct{ name, script, want string }{
		{"exit code", `echo no quota >&2; exit 3`, "exit status 3: no quota"},
		{"no JSON", `echo hello`, "driver's answer"},
		{"unknown field", `echo '{"nodes":[]}'`, "nodes"},
		{"two values", `echo '{}{}'`, "more than one"},
		{"duplicate id", `echo '{"machines":[{"id":"a","url":""},{"id":"a","url":""}]}'`, "duplicate"},
		{"endless output", `exec yes x`, ""},
		{"hangs with a child", `sleep 600 & wait`, "deadline"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := script(t, tc.script)
			limit := 5 * time.Second
			if tc.want == "" || tc.want == "deadline" {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			_, err := c.Apply(ctx, order)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if d := time.Since(began); d > limit+3*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
	if _, err := (&Command{Argv: []string{"/does/not/exist"}}).Apply(t.Context(), order); err == nil {
		t.Error("a missing program is no error")
	}
}

func TestCommand_answersNothing(t *testing.T) {
	c, _ := script(t, `true`)
	if a, err := c.Apply(t.Context(), order); err != nil || a.Machines != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestWebhook checks the signature with openssl, an independent implementation.
func TestWebhook(t *testing.T) {
	secret := []byte("a secret of the operator")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		stamp := r.Header.Get("X-Kvasir-Timestamp")
		c := exec.Command("openssl", "dgst", "-sha256", "-hmac", string(secret))
		c.Stdin = strings.NewReader(stamp + "." + string(b))
		out, err := c.Output()
		if err != nil {
			t.Error(err)
		}
		f := strings.Fields(string(out))
		if got, want := r.Header.Get("X-Kvasir-Signature"), "sha256="+f[len(f)-1]; got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		if stamp != "1700000000" || r.Header.Get("Idempotency-Key") != order.Key {
			t.Errorf("headers %v", r.Header)
		}
		var q map[string]any
		if json.Unmarshal(b, &q) != nil || q["op"] != "apply" || q["desired"] != 3.0 {
			t.Errorf("body %s", b)
		}
		io.WriteString(w, `{"machines":[]}`)
	}))
	defer s.Close()
	w := &Webhook{URL: s.URL, Secret: secret, Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}
	a, err := w.Apply(t.Context(), order)
	if err != nil || a.Machines == nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestWebhook_bad(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuse":
			http.Error(w, "no\nquota", http.StatusConflict)
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/hang":
			io.Copy(io.Discard, r.Body) // or the server would not see the client leave
			<-r.Context().Done()
		case "/large":
			io.WriteString(w, strings.Repeat(" ", maxAnswer+10))
		}
	}))
	defer s.Close()
	for path, want := range map[string]string{"/refuse": "status 409: no quota", "/redirect": "status 302",
		"/hang": "deadline", "/large": "larger than"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := (&Webhook{URL: s.URL + path}).Apply(ctx, order)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"machines":[{"id":"a","url":"http://h:1"}]}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b, false)
		if (a == nil) == (err == nil) {
			t.Errorf("answer %v and error %v", a, err)
		}
	})
}
