package policies_test

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// allowed evaluates a boolean rule for many inputs in upstream OPA.
func allowed(t *testing.T, dir, rule string, asked []object) []bool {
	t.Helper()
	out := make([]bool, len(asked))
	for i, v := range ask(t, dir, rule, asked) {
		if err := json.Unmarshal(v, &out[i]); err != nil {
			t.Fatalf("%v: %v: %q", asked[i], err, v)
		}
	}
	return out
}

// compare checks that got equals want of each input, and that both answers occur.
func compare(t *testing.T, asked []object, got []bool, want func(in object) bool) {
	t.Helper()
	yes := 0
	for i, q := range asked {
		in := q["input"].(object)
		if w := want(in); got[i] != w {
			t.Errorf("%v: allowed %v, want %v", in, got[i], w)
		} else if w {
			yes++
		}
	}
	if yes < len(asked)/100 || yes > len(asked)/2 {
		t.Errorf("%d of %d were allowed: only one answer occurs", yes, len(asked))
	}
	t.Logf("%d of %d allowed", yes, len(asked))
}

// TestAdminMatrix: every verb × scopes × credential × object.
func TestAdminMatrix(t *testing.T) {
	var asked []object
	for _, verb := range []string{"policy:read", "policy:activate", "plugin:push", "explain:read", "key:issue", "",
		"policy", "policy:*", "*", "Policy:read", "explain:", "a:b:c"} {
		for _, held := range [][]string{{}, {"policy:read"}, {"policy:*"}, {"plugin:push", "policy:read"}, {"explain:read"},
			{"explain:read", "explain:any"}, {"explain:*"}, {"*"},
			{"policy"}, {"*:read"}, {""}, {"policy:rea"}, {"POLICY:READ"}, {verb}, {"plugin:*", "key:issue"}} {
			for _, id := range []string{"", "ada"} {
				for _, method := range []string{"api_key", "jwt", "mtls", "admin_token", "anonymous", ""} {
					for _, about := range []object{{}, {"tenant": "ops"}, {"tenant": "acme"}, {"tenant": ""}} {
						asked = append(asked, object{"input": object{"version": "1", "verb": verb, "object": about,
							"principal": object{"id": id, "tenant": "ops", "scopes": held, "auth": object{"method": method, "issuer": ""}}}})
					}
				}
			}
		}
	}
	verbs := regexp.MustCompile(`^[a-z]+:[a-z]+$`)
	want := func(in object) bool {
		p, verb := in["principal"].(object), in["verb"].(string)
		held := p["scopes"].([]string)
		area, _, _ := strings.Cut(verb, ":")
		switch {
		case p["id"] == "" || !slices.Contains([]string{"api_key", "jwt", "mtls", "admin_token"},
			p["auth"].(object)["method"].(string)):
			return false
		case !verbs.MatchString(verb):
			return false
		case slices.Contains(held, "*") || slices.Contains(held, area+":*"):
			return true
		case !slices.Contains(held, verb):
			return false
		}
		return area != "explain" || in["object"].(object)["tenant"] == p["tenant"] || slices.Contains(held, "explain:any")
	}
	compare(t, asked, allowed(t, folder(t, files(t)), "data.kvasir.admin.allow", asked), want)
	s := mustLoad(t, files(t))
	for _, q := range asked {
		in := q["input"].(object)
		p := in["principal"].(object)
		if p["id"] == "" {
			continue // the router has no principal without a name
		}
		about, _ := in["object"].(object)["tenant"].(string)
		if about == "" && in["object"].(object)["tenant"] != nil {
			continue // for the router such an object belongs to no tenant
		}
		a, err := s.Admin(&policy.AdminQuestion{Verb: in["verb"].(string), Tenant: about, Principal: &identity.Principal{
			KeyID: "ada", User: "ada", Tenant: "ops", Scopes: p["scopes"].([]string),
			Method: p["auth"].(object)["method"].(string)}})
		if err != nil || a.Allow != want(in) {
			t.Errorf("%v: the router's answer: %v, %v", in, a, err)
		}
	}
}

// TestBackendMatrix: every address × pool × labels.
func TestBackendMatrix(t *testing.T) {
	dir := folder(t, files(t))
	labels := object{"region": object{"eu": true, "us": false}}
	backends := object{
		"open": object{"networks": []string{"10.0.0.0/8", "fd00::/8"}, "plain_http": true, "labels": object{}},
		"eu": object{"networks": []string{"10.0.0.0/8"}, "hosts": object{"gpu.example": true, "old.example": false},
			"plain_http": false, "labels": labels},
		"hosts": object{"hosts": object{"gpu.example": true}, "labels": labels},
		"none":  object{},
	}
	var asked []object
	for _, u := range []string{"http://10.0.0.1:8000", "https://10.0.0.1", "https://10.0.0.1:8000/v1",
		"http://[fd00::1]:8000", "https://[fe80::1]", "https://11.0.0.1",
		"https://gpu.example", "http://gpu.example", "https://old.example", "https://gpu.example.evil",
		"https://10.0.0.1.evil", "https://10.0.0.1@evil.example", "https://evil.example/?10.0.0.1",
		"https://GPU.example", "ftp://10.0.0.1", "10.0.0.1", "", "https://"} {
		for _, pool := range []string{"open", "eu", "hosts", "none", "ghost", ""} {
			for _, l := range []object{{}, {"region": "eu"}, {"region": "us"}, {"region": ""},
				{"region": "eu", "isolation": "verified"}, {"isolation": "verified"}} {
				asked = append(asked, object{"backends": backends,
					"input": object{"version": "1", "backend": object{"url": u, "pool": pool, "dialect": "vllm", "labels": l}}})
			}
		}
	}
	want := func(in object) bool {
		b := in["backend"].(object)
		pool, ok := backends[b["pool"].(string)].(object)
		u, err := url.Parse(b["url"].(string))
		if !ok || err != nil || u.Scheme != "https" && (u.Scheme != "http" || pool["plain_http"] != true) {
			return false
		}
		hosts, _ := pool["hosts"].(object)
		known := hosts[u.Hostname()] == true
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			networks, _ := pool["networks"].([]string)
			known = known || slices.ContainsFunc(networks, func(n string) bool {
				return netip.MustParsePrefix(n).Contains(addr)
			})
		}
		claims, may := b["labels"].(object), object{}
		if l, ok := pool["labels"].(object); ok {
			may = l
		}
		for name, value := range claims {
			if values, _ := may[name].(object); values[value.(string)] != true {
				return false
			}
		}
		return known && len(claims) == len(may)
	}
	compare(t, asked, allowed(t, dir, "data.kvasir.backend.allow", asked), want)
	all := files(t)
	text, err := json.Marshal(backends)
	if err != nil {
		t.Fatal(err)
	}
	all["data/backends/backends.json"] = text
	s := mustLoad(t, all)
	for _, q := range asked {
		in := q["input"].(object)
		b, labels := in["backend"].(object), map[string]string{}
		for name, value := range b["labels"].(object) {
			labels[name] = value.(string)
		}
		// An address that cannot be parsed is an error, which counts as a refusal.
		a, err := s.Backend(&policy.BackendQuestion{URL: b["url"].(string), Pool: b["pool"].(string), Dialect: "vllm",
			Labels: labels})
		if (err == nil && a.Allow) != want(in) {
			t.Errorf("%v: the router says %v, %v", in, a, err)
		}
	}
}
