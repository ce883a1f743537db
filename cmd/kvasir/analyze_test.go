package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnalyze(t *testing.T) {
	var lines bytes.Buffer
	rules := strings.Repeat("Answer briefly and in the language of the question. ", 80)
	for i := range 30 {
		fmt.Fprintf(&lines, `{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"q%d"}]}`+"\n",
			fmt.Sprintf("Now: 2026-05-06T07:08:%02dZ. %s", i, rules), i)
	}
	file := filepath.Join(t.TempDir(), "bodies.jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := analyzeCommand()
		c.SetArgs(args)
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage = true
		err := c.Execute()
		return out.String(), err
	}
	c := analyzeCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs([]string{file, "--output", "json", "--gpu-hour", "3600", "--prefill-rate", "1000", "--cache", "1k,1M"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var a analysis
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if a.Requests != 30 || !a.Estimated || len(a.Caches) != 3 || a.Caches[2].CacheTokens != 0 || len(a.Causes) != 1 {
		t.Fatalf("got %+v", a)
	}
	x := a.Causes[0]
	if x.Name != "time" || x.Prompts != 30 || x.GainTokens < 29*900 || x.GPUSeconds != float64(x.GainTokens)/1000 ||
		x.Money != x.GPUSeconds {
		t.Errorf("got %+v", x)
	}
	out.Reset()
	c = analyzeCommand()
	c.SetOut(&out)
	c.SetArgs([]string{file})
	if err := c.Execute(); err != nil || !strings.Contains(out.String(), "put the time at the end") ||
		strings.Contains(out.String(), "MONEY") || strings.Contains(out.String(), "Answer briefly") {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, bad := range [][]string{{file, "--cache", "x"}, {file, "--prefill-rate", "0"}, {file + "x"}} {
		if _, err := run(bad...); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
