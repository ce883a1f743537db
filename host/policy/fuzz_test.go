package policy

import (
	"errors"
	"strings"
	"testing"
)

// FuzzLoad: with any files, a policy is loaded, or refused with faults that each have
// a suggested fix.
func FuzzLoad(f *testing.F) {
	f.Add(base["kvasir/decision.rego"], base["data/tenants/all.json"])
	f.Add(strings.Replace(base["kvasir/decision.rego"], "tenant.enabled", "input.request.labels[x]", 1), `{"acme": {}}`)
	for _, x := range devious {
		f.Add(string(deviousPolicy(x)["kvasir/decision.rego"].Data), deviousData)
	}
	f.Add("package kvasir\n\ndefault decision := {\"allow\": false}\n\ndecision := data.kvasir.decision", "{")
	f.Fuzz(func(t *testing.T, rules, data string) {
		if len(rules) > 4096 || len(data) > 4096 {
			return
		}
		src, err := FromFiles(map[string][]byte{"kvasir/decision.rego": []byte(rules), "data/data.json": []byte(data)})
		if err == nil {
			_, err = Load(src, Config{Key: key32(), NoTests: true}, nil)
		}
		if err == nil {
			return
		}
		all, ok := errors.AsType[Faults](err)
		if !ok || len(all) == 0 {
			t.Fatalf("got %v", err)
		}
		for _, x := range all {
			if x.What == "" || x.Fix == "" || strings.Contains(x.What, "cannot be compiled") {
				t.Errorf("got %+v", x)
			}
		}
	})
}

// FuzzLastGood: no contents of the file cause a panic, and contents that were not
// written with the key are refused.
func FuzzLastGood(f *testing.F) {
	f.Add([]byte("0000\n{}"))
	f.Add([]byte(lastGoodMAC(make([]byte, KeyBytes), []byte(`{"version": 1, "files": {"a.rego": "cGFja2FnZSBh"}}`)) +
		"\n" + `{"version": 1, "files": {"a.rego": "cGFja2FnZSBh"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := parseLastGood(text, key32()); err == nil {
			t.Errorf("%q was accepted", text)
		}
		_, body, _ := strings.Cut(string(text), "\n")
		if k, err := parseLastGood([]byte(lastGoodMAC(key32(), []byte(body))+"\n"+body), key32()); err == nil &&
			len(k.Source.modules) == 0 {
			t.Errorf("%q has no module", body)
		}
	})
}
