package secret

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

const (
	id  = "abcdefg2"
	sec = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"
	key = KeyPrefix + id + "_" + sec
)

func TestRedact(t *testing.T) {
	const kept = "kv_abcdefg2_…"
	token := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
	for in, want := range map[string]string{
		"":                                    "",
		key:                                   kept,
		"key/" + key:                          "key/" + kept,
		`there is no key "` + key + `"`:       `there is no key "` + kept + `"`,
		key[:40]:                              kept,
		key + "." + key:                       kept + "." + kept,
		key + "x9":                            kept + "9",
		"x" + key:                             "x" + kept,
		strings.ToUpper(key):                  "KV_ABCDEFG2_…",
		strings.ReplaceAll(key, "_", "%5F"):   "kv%5Fabcdefg2%5F…",
		strings.ReplaceAll(key, "_", "%255f"): "kv%255fabcdefg2%255f…",
		sec:                                   "…",
		"e" + sec[:51]:                        "…",
		"b" + sec[:51]:                        "…",
		"s" + sec[:51]:                        "…",
		"k" + sec[:51]:                        "…",
		"x" + sec + "9":                       "…",
		id + "_" + sec:                        id + "_…",
		"token=" + token + "&x=1":             "token=eyJ…&x=1",
		"Authorization: Bearer s3cret-token":  "Authorization: Bearer …",
		"bearer+abcdefghijklmnopqrst":         "bearer+…",
		"sk-abcdefghijklmnop-1234":            "sk-…",

		// What is none.
		"kv_abcdefg2":                         "kv_abcdefg2",
		strings.Repeat("ab", 64):              strings.Repeat("ab", 64),
		"kv_deadbeef_cache":                   "kv_deadbeef_cache",
		"kv_cache_usage_perc":                 "kv_cache_usage_perc",
		"the bearer authentication of a pool": "the bearer authentication of a pool",
		"Authorization: Bearer …":             "Authorization: Bearer …",
		"eyJhbGciOiJSUzI1NiJ9":                "eyJhbGciOiJSUzI1NiJ9",
		strings.Repeat("0123456789abcdef", 4): strings.Repeat("0123456789abcdef", 4),
		sec[:51]:                              sec[:51],
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got, inBytes := Has(in), HasBytes([]byte(in)); got != (in != want) || inBytes != got {
			t.Errorf("%q: Has is %v, HasBytes is %v", in, got, inBytes)
		}
	}
}

func TestHas_allocates(t *testing.T) {
	b := []byte(strings.Repeat("0123456789abcdef-", 8))
	if n := testing.AllocsPerRun(100, func() { HasBytes(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLogger: a key is in no part of a record, and other values keep their kind.
func TestLogger(t *testing.T) {
	var b bytes.Buffer
	l := Logger(slog.New(slog.NewJSONHandler(&b, nil)))
	l.With("with", key).WithGroup("g").Info("message "+key, "string", key, "err", fmt.Errorf("x: %w", errors.New(key)),
		"list", []string{key}, "n", 7,
		"url", &url.URL{Path: "/" + key}, slog.Group("inner", "deep",
			key), "struct", struct{ A string }{key}, "bytes", []byte("plain"))
	if text := b.String(); strings.Contains(text, sec) || strings.Count(text, Mark) != 8 ||
		!strings.Contains(text, `"n":7`) {
		t.Errorf("got %s", text)
	}
}

// FuzzRedact puts a key between any two texts. Its secret is not among the seeds: a
// mutated seed could hold it where no credential begins.
func FuzzRedact(f *testing.F) {
	const sec = "765432zyxwvutsrqponmlkjihgfedcba765432zyxwvutsrqponm"
	for _, s := range []string{"", "x", key, "Bearer " + key, "eyJhbGciOiJSUzI1NiJ9.a", "%5", "kv_", "sk-"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		got := Redact(before + KeyPrefix + id + "_" + sec + after)
		if strings.Contains(got, sec) {
			t.Fatalf("%q has the key", got)
		}
		if again := Redact(got); strings.Contains(again, sec) {
			t.Fatalf("%q has the key", again)
		}
	})
}
