package policies_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

// object is a JSON object.
type object = map[string]any

// Words of which worlds and requests consist. The last word of each list is in no
// record, or has a meaning only in one field.
var (
	tenantIDs = []string{"acme", "globex", "Ünïcode", "a b", "t-5", "ghost"}
	userIDs   = []string{"", "u1", "u2"}
	methods   = []string{"api_key", "jwt", "mtls", "anonymous"}
	models    = []string{"llama", "qwen", "org/model:7b", "*"}
	adapters  = []string{"", "legal", "medical"}
	pools     = []string{"a", "b", "c", "any"}
	regions   = []string{"eu-west", "eu-central", "us", "any"}
	classes   = []string{"high", "standard", "low", "idle", "unheard"}
	groups    = []string{"g1", "g2", "g3"}
	scopes    = []string{"tenant", "user", "group", "none", "public"}
)

// world is the data of a policy.
type world struct{ tenants, trustGroups, classes object }

// data returns w by the names of data.
func (w *world) data() map[string]object {
	return map[string]object{"tenants": w.tenants, "trust_groups": w.trustGroups, "classes": w.classes}
}

// files returns the files of the data folder of w.
func (w *world) files(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, v := range w.data() {
		text, err := json.MarshalIndent(object{name: v}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		out["data/"+name+".json"] = text
	}
	return out
}

// over returns a policy folder with the data of w and no other.
func (w *world) over(t testing.TB, policy map[string][]byte) map[string][]byte {
	t.Helper()
	out := maps.Clone(policy)
	maps.DeleteFunc(out, func(name string, _ []byte) bool { return len(name) > 5 && name[:5] == "data/" })
	maps.Copy(out, w.files(t))
	return out
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// some returns between one and all of the words of a list, in random order.
func some(r *rand.Rand, of []string) []string {
	all := slices.Clone(of)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(len(all))]
}

// set returns words as keys, most of them true.
func set(r *rand.Rand, of []string) object {
	out := object{}
	for _, w := range some(r, of) {
		out[w] = r.IntN(5) > 0
	}
	return out
}

// someOf returns about half of the members of o. Members are visited by name, so
// that a seed gives one result.
func someOf(r *rand.Rand, o object) object {
	out := object{}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if r.IntN(2) == 0 {
			out[name] = o[name]
		}
	}
	return out
}

// makeWorld returns data that meets the schemas.
func makeWorld(r *rand.Rand) *world {
	w := &world{object{}, object{}, object{}}
	for _, id := range tenantIDs[:len(tenantIDs)-1] {
		w.tenants[id] = makeTenant(r)
	}
	for _, g := range groups[:2] {
		w.trustGroups[g] = object{"members": set(r, tenantIDs)}
	}
	for i, c := range classes[:4] {
		class := object{"priority": 10 * (2 - i)}
		if r.IntN(2) == 0 {
			class["affinity"] = someOf(r, object{"weight": float64(r.IntN(11)), "max_share": float64(1+r.IntN(10)) / 10,
				"sticky": r.IntN(2) == 0})
		}
		w.classes[c] = class
	}
	return w
}

func makeTenant(r *rand.Rand) object {
	limits := object{}
	for _, name := range []string{"max_prompt_tokens", "max_output_tokens", "max_concurrency", "tokens_per_minute",
		"requests_per_minute"} {
		limits[name] = pick(r, []int{0, 1, 1000, 1 << 30})
	}
	t := object{
		"enabled": r.IntN(12) > 0, "auth_methods": set(r, methods), "models": set(r, models), "pools": some(r, pools),
		"regions": any("any"), "priorities": set(r, classes), "cache": pick(r, scopes), "limits": limits,
	}
	t["auth_methods"].(object)["api_key"] = true
	t["priorities"].(object)[pick(r, classes[:4])] = true
	if r.IntN(3) > 0 {
		t["regions"] = some(r, regions)
	}
	maps.Copy(t, someOf(r, object{
		"adapters": set(r, adapters[1:]), "trust_group": pick(r, groups), "rate_class": pick(r, []string{"gold", "silver"}),
		"profile": pick(r, []string{"", "batch"}), "audit": pick(r, []string{"none", "sample", "full"}),
		"prefer": []any{object{"label": "gpu", "values": []string{"h100"}, "weight": pick(r, []float64{0, 0.25, 1})}},
		"site":   object{"anything": []any{1, nil, "x"}}, "description": "made up",
	}))
	if t["cache"] == "group" && r.IntN(4) > 0 {
		t["trust_group"] = pick(r, groups[:2])
	}
	return t
}

// makeInput returns a request of one of the tenants.
func makeInput(r *rand.Rand) *policy.Input {
	in := &policy.Input{
		Principal: &identity.Principal{Tenant: pick(r, tenantIDs), User: pick(r, userIDs), Method: pick(r, methods),
			Issuer: "https://idp",
			Groups: []string{"eng"}, Scopes: []string{"infer"}},
		Operation: pick(r, []string{"chat.completions", "completions", "responses", "messages", "models", "tokenize"}),
		Model:     pick(r, append([]string{"gpt"}, models...)), Adapter: pick(r, adapters), Stream: r.IntN(2) == 0,
		Priority: pick(r, append([]string{""}, classes...)), SizeClass: pick(r, []string{"xs", "s", "m", "l", "xl"}),
		Region: pick(r, regions[:3]), HourUTC: r.IntN(24), CapacityState: pick(r, []string{"ok", "scarce", "none"}),
	}
	if r.IntN(4) > 0 { // so that most requests are allowed
		in.Principal.Method, in.Adapter, in.Model = "api_key", "", pick(r, models[:2])
	}
	if r.IntN(3) == 0 {
		in.Labels = []policy.Label{{Name: "data_class", Value: "phi"}, {Name: "team", Value: fmt.Sprint(r.IntN(3))}}
	}
	return in
}

// document returns in as the contract defines it, built without the router's code.
func document(in *policy.Input) object {
	labels := object{}
	for _, l := range in.Labels {
		labels[l.Name] = l.Value
	}
	p := in.Principal
	return object{
		"version": "1",
		"tenant": object{"id": p.Tenant, "user": p.User, "groups": p.Groups, "scopes": p.Scopes,
			"auth": object{"method": p.Method, "issuer": p.Issuer}},
		"request": object{"operation": in.Operation, "model": in.Model, "adapter": in.Adapter, "stream": in.Stream,
			"priority": in.Priority, "size_class": in.SizeClass, "labels": labels},
		"router": object{"region": in.Region, "hour_utc": in.HourUTC, "capacity_state": in.CapacityState},
	}
}
