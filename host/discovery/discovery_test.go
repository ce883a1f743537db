package discovery

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	want := []string{"http://10.0.0.1:8000", "http://[::1]:8000", "http://h:1"}
	for _, s := range []string{
		`["http://10.0.0.1:8000/", "http://[::1]:8000", "h:1", "h:1"]`,
		`[{"targets": ["10.0.0.1:8000", "[::1]:8000"], "labels": {"a": "b"}}, {"targets": ["h:1"]}]`,
	} {
		got, err := Parse([]byte(s))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		`{`: "want a list", `["ftp://h:1"]`: "want http", `["h"]`: "want a port", `["h:99999"]`: "want",
		`["http://u@h:1"]`: "only scheme", `["h:1/v1"]`: "only scheme", `[""]`: "want a URL", `[]`: "no endpoint",
	} {
		if _, err := Parse([]byte(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}

func TestFile(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "fleet.json")}
	if _, err := f.Find(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(f.Path, []byte(`["h:1"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Find(t.Context()); err != nil || !slices.Equal(got, []string{"http://h:1"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// zone is a name server.
type zone struct {
	hosts map[string][]string
	srv   map[string][]*net.SRV
}

func (z zone) LookupHost(_ context.Context, h string) ([]string, error) {
	if a, ok := z.hosts[h]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: h, IsNotFound: true}
}

func (z zone) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	if s, ok := z.srv[name]; ok {
		return name, s, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestDNS(t *testing.T) {
	z := zone{
		hosts: map[string][]string{"vllm.svc": {"10.0.0.2", "10.0.0.1"}, "a.": {"10.1.0.1"}, "b.": {"fd00::1"}},
		srv: map[string][]*net.SRV{"_http._tcp.x": {{Target: "a.", Port: 80}, {Target: "b.", Port: 81}},
			"bad": {{Target: "gone.", Port: 1}}},
	}
	if got, err := (&DNS{Name: "vllm.svc", Port: 8000, Resolver: z}).Find(t.Context()); err != nil ||
		!slices.Equal(got, []string{"http://10.0.0.1:8000", "http://10.0.0.2:8000"}) {
		t.Errorf("addresses: %q, %v", got, err)
	}
	if got, err := (&DNS{Name: "_http._tcp.x", Resolver: z}).Find(t.Context()); err != nil ||
		!slices.Equal(got, []string{"http://10.1.0.1:80", "http://[fd00::1]:81"}) {
		t.Errorf("SRV: %q, %v", got, err)
	}
	for _, d := range []*DNS{{Name: "nowhere", Port: 1, Resolver: z}, {Name: "nowhere", Resolver: z},
		{Name: "bad", Resolver: z}} {
		if _, err := d.Find(t.Context()); err == nil {
			t.Errorf("%s was found", d.Name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[{"targets": ["10.0.0.1:8000"]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		urls, err := Parse(b)
		if (err == nil) != (len(urls) > 0) {
			t.Errorf("%q, %v", urls, err)
		}
		for _, u := range urls {
			if again, err := baseURL(u); err != nil || again != u {
				t.Errorf("%q reads as %q, %v", u, again, err)
			}
		}
	})
}

func TestLines(t *testing.T) {
	if got, err := Lines("\n h:2\r\nhttp://10.0.0.1:1/\n\nh:2"); err != nil ||
		!slices.Equal(got, []string{"http://10.0.0.1:1", "http://h:2"}) {
		t.Errorf("%q, %v", got, err)
	}
	for s, want := range map[string]string{"": "no endpoint", "\n \n": "no endpoint", "h": "want a port",
		"h:1\nftp://h:2": "want http://", "h:1 h:2": "want"} {
		if got, err := Lines(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", s, got, err, want)
		}
	}
	f := &File{Path: filepath.Join(t.TempDir(), "x"), Read: func(b []byte) ([]string, error) { return Lines(string(b)) }}
	if err := os.WriteFile(f.Path, []byte("h:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Find(t.Context()); err != nil || !slices.Equal(got, []string{"http://h:1"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("10.0.0.1:8000\nhttp://h:1\n")
	f.Fuzz(func(t *testing.T, s string) {
		urls, err := Lines(s)
		if (err == nil) != (len(urls) > 0) || len(urls) > Max {
			t.Errorf("%q, %v", urls, err)
		}
		for _, u := range urls {
			if again, err := baseURL(u); err != nil || again != u {
				t.Errorf("%q reads as %q, %v", u, again, err)
			}
		}
	})
}
