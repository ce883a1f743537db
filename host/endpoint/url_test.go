package endpoint

import (
	"errors"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://10.0.0.1:8000": "http://10.0.0.1:8000", "http://a.example:1/": "http://a.example:1", "http://[::1]:65535//": "http://[::1]:65535", "HTTP://a:1": "http://a:1",
	} {
		if u, err := ParseURL(in); err != nil || u.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, u, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "such as", "a:1": "such as", "http://": "such as", "http://:80": "such as", "http:a:1": "such as", "https://a:1": "want http://", "http://a": "such as http://a:8000", "http://a:": "port",
		"http://a:0": "from 1 to 65535", "http://a:65536": "from 1 to 65535", "http://a:1/v1": "only scheme", "http://u:p@a:1": "only scheme", "http://a:1?x=1": "only scheme", "http://a:1?": "only scheme", "http://a:1#f": "only scheme",
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
		if err != nil || *again != *u || u.String() != "http://"+u.Host {
			t.Errorf("%q reads as %v and then %v, %v", s, u, again, err)
		}
	})
}

// TestSetInfo: attributes change in place; the endpoint's identity, state and load
// stay.
func TestSetInfo(t *testing.T) {
	s := NewStore()
	id, err := s.Add(Info{URL: "http://a:1", Addr: "a:1", Pool: "p", Dialect: "vllm", Labels: map[string]string{"zone": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Update(id, func(st *State) { st.Ready, st.Models = true, []string{"m"} })
	before := s.Load()
	before.Loads[id].Charge("t", 7, 7)
	labels := map[string]string{"zone": "b", LabelIsolation: IsolationVerified, LabelPool: "other"}
	if !s.SetInfo(id, Info{URL: "http://b:1", Addr: "b:1", Pool: "q", Dialect: "sglang", Labels: labels, Price: 2, Spot: true}) {
		t.Fatal("no endpoint")
	}
	labels["zone"] = "mine"
	after := s.Load()
	got, was := after.Info(id), before.Info(id)
	if got.URL != was.URL || got.Addr != was.Addr || got.Pool != "p" || got.Epoch != was.Epoch || got.ID != id {
		t.Errorf("another endpoint: %+v", got)
	}
	if got.Dialect != "sglang" || got.Price != 2 || !got.Spot || got.Labels["zone"] != "b" || got.Labels[LabelPool] != "p" {
		t.Errorf("attributes %+v", got)
	}
	if was.Dialect != "vllm" || was.Labels["zone"] != "a" {
		t.Errorf("an earlier snapshot changed: %+v", was)
	}
	if after.Loads[id] != before.Loads[id] || after.Loads[id].Inflight() != 1 || !after.Ready.Has(id) {
		t.Error("load or readiness is lost")
	}
	if after.Label("zone", "a") != nil || !after.Label("zone", "b").Has(id) || after.Label(LabelIsolation, IsolationVerified) != nil || after.Topology == before.Topology {
		t.Error("label sets do not follow")
	}
	if s.SetInfo(id+1, Info{}) {
		t.Error("an empty slot has an endpoint")
	}
}
