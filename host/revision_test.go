package host

import (
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

// TestReload_keyFileTakenOut checks that keys of a key file that the configuration no
// longer names are refused, although other authentication methods remain.
func TestReload_keyFileTakenOut(t *testing.T) {
	x := newLive(t)
	keys, _ := x.keyFile("keys.json", "acme", "globex")
	pool := "endpoints: [\"" + x.engine() + "\"]"
	x.write("kvasir.yaml", x.yaml("api_keys_file: "+x.path("keys.json")+", anonymous: {tenant: local}", pool, ""))
	x.start()
	if got := x.ask(keys["acme"]); got != 200 {
		t.Fatalf("got %d", got)
	}
	x.write("other.json", `{"version":1,"keys":[]}`)
	x.write("kvasir.yaml", x.yaml("api_keys_file: "+x.path("other.json")+", anonymous: {tenant: local}", pool, ""))
	if _, err := x.Reload(); err != nil {
		t.Fatal(err)
	}
	for tenant, key := range keys {
		if got := x.ask(key); got != 401 {
			t.Errorf("key of %s after the configuration dropped its file: got %d", tenant, got)
		}
	}
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: local}", pool, ""))
	if _, err := x.Reload(); err != nil {
		t.Fatal(err)
	}
	if list := x.rules.Credentials().List(); len(list) != 0 {
		t.Errorf("%d keys in force without a key file", len(list))
	}
	p, err := x.rules.Credentials().Authenticate(&identity.Credentials{APIKey: []byte(keys["acme"])})
	if err != nil || p.Tenant != "local" {
		t.Errorf("a key without a key file: got %+v %v, want the anonymous tenant", p, err)
	}
}

// TestReload_refusedIsWhole checks that a reload that is refused because of a driver's
// secret applies no part of its files.
func TestReload_refusedIsWhole(t *testing.T) {
	x := newLive(t)
	keys, _ := x.keyFile("keys.json", "acme")
	pool := "endpoints: [\"" + x.engine() + "\"]"
	x.write("kvasir.yaml", x.yaml("api_keys_file: "+x.path("keys.json"), pool, ""))
	x.start()
	more, _ := x.keyFile("keys.json", "globex")
	x.write("secret", "short\n")
	x.write("kvasir.yaml",
		x.yaml("api_keys_file: "+x.path("keys.json"),
			pool+", autoscale: {max: 2, driver: {webhook: {url: \"https://driver.example\", secret_file: "+
				x.path("secret")+"}}}",
			"client_hints: {session: x-conversation}\n"))
	if _, err := x.Reload(); err == nil || !strings.Contains(err.Error(), "secret") {
		t.Fatalf("got %v, want an error about the secret", err)
	}
	if got := x.ask(more["globex"]); got != 401 {
		t.Errorf("key of a refused file: got %d", got)
	}
	if got := x.ask(keys["acme"], "X-Conversation", "c-1"); got != 200 || x.seen.Get("X-Conversation") == "" {
		t.Errorf("key of the previous file: got %d, hint forwarded %t", got, x.seen.Get("X-Conversation") != "")
	}
}

// TestReload_hints checks that a reload changes the header fields that carry clients'
// hints, and that a hint does not reach the engine.
func TestReload_hints(t *testing.T) {
	x := newLive(t)
	pool := "endpoints: [\"" + x.engine() + "\"]"
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: local}", pool, ""))
	x.start()
	if x.ask("", "X-Conversation", "c-1"); x.seen.Get("X-Conversation") == "" {
		t.Error("a header field that is not a hint does not reach the engine")
	}
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: local}", pool, "client_hints: {session: x-conversation}\n"))
	if _, err := x.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := x.ask("", "X-Conversation", "c-1"); got != 200 || x.seen.Get("X-Conversation") != "" {
		t.Errorf("got %d; the new hint reached the engine: %t", got, x.seen.Get("X-Conversation") != "")
	}
}
