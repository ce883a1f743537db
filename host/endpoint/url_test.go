package endpoint

import (
	"errors"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://10.0.0.1:8000": "http://10.0.0.1:8000", "http://a.example:1/": "http://a.example:1",
		"http://[::1]:65535//": "http://[::1]:65535", "HTTP://a:1": "http://a:1", "https://a:8443/": "https://a:8443",
	} {
		if u, err := ParseURL(in); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, u, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "such as", "a:1": "such as", "http://": "such as", "http://:80": "such as", "http:a:1": "such as",
		"ftp://a:1": "want http:// or https://", "http://a": "such as http://a:8000", "http://a:": "port",
		"http://a:0": "from 1 to 65535", "http://a:65536": "from 1 to 65535", "http://a:1/v1": "only scheme",
		"http://u:p@a:1": "only scheme", "http://a:1?x=1": "only scheme", "http://a:1?": "only scheme",
		"http://a:1#f": "only scheme",
		"http://a:1\n": "such as", "http://a:b": "such as",
	} {
		if u, err := ParseURL(in); !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", in, u, err, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("http://10.0.0.1:8000/")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		again, err := ParseURL(u.String())
		if err != nil || *again != *u || u.String() != u.Scheme+"://"+u.Host {
			t.Errorf("%q reads as %v and then %v, %v", s, u, again, err)
		}
	})
}
