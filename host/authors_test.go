package host

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/plugins"
	shipped "github.com/kvasir-router/kvasir/policies"
)

// people is an authenticator whose bearer tokens are the users' names.
type people struct{}

func (people) Verify(c *identity.Credentials) (*identity.Principal, error) {
	user := strings.TrimPrefix(string(c.Authorization), "Bearer ")
	return &identity.Principal{Method: identity.MethodJWT, Issuer: "https://idp", Tenant: "ops", User: user,
		Groups: []string{"platform"}, Scopes: []string{"plugin:*"}}, nil
}

// TestAuthors runs the example policy of administrators' roles: the user who pushed a
// version cannot activate it, another user can, and both may roll back.
func TestAuthors(t *testing.T) {
	files, err := shipped.Files("admin_rbac")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		save(t, filepath.Join(dir, name), string(text))
	}
	h, log := startHost(t, t.TempDir(), fmt.Sprintf("policy: {dir: %q}\n%s", dir, usesMine))
	s, err := admin.New(admin.Config{Token: "the-admin-token", Plugins: h.plugins, Identity: people{},
		Authorizer: h.policy()})
	if err != nil {
		t.Fatal(err)
	}
	api := s.Handler()
	do := func(user, method, path, body string, status int, want string) (answer struct{ Digest string }) {
		t.Helper()
		r, w := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+user)
		api.ServeHTTP(w, r)
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Fatalf("%s %s %s: got %d %s, want %d and %q\n%s", user, method, path, w.Code, w.Body, status, want, log)
		}
		_ = json.Unmarshal(w.Body.Bytes(), &answer) // an answer that is not an object has no digest
		return answer
	}
	var digests []string
	for _, name := range []string{"prefixfirst", "roundrobin"} {
		code, err := plugins.Code(name)
		if err != nil {
			t.Fatal(err)
		}
		do("ada", "POST", "/v1/plugins?name=mine&activate=true", string(code), 403, "author_activates")
		digests = append(digests, do("ada", "POST", "/v1/plugins?name=mine", string(code), 200, "").Digest)
		at := "/v1/plugins/mine/activate?digest=" + digests[len(digests)-1][:12]
		do("ada", "POST", at, "", 403, "author_activates")
		// pushing the same module again does not make bob its author
		do("bob", "POST", "/v1/plugins?name=mine", string(code), 200, "")
		do("ada", "POST", at, "", 403, "author_activates")
		do("bob", "POST", at, "", 200, `"active":true`)
	}
	// no user pushed this version
	do("bob", "POST", "/v1/plugins/mine/activate?digest=0123456789ab", "", 403, "author_activates")
	if list := listed(t, h); strings.Count(list, `"pusher": "jwt:ops/ada@https://idp"`) != 2 {
		t.Errorf("the list does not name the pusher: %s", list)
	}
	if got := do("ada", "POST", "/v1/plugins/mine/rollback", "", 200, "").Digest; got != digests[0] {
		t.Errorf("back to %s, want %s", got, digests[0])
	}
	do("ada", "DELETE", "/v1/plugins/mine", "", 200, "")
	do("the-admin-token", "POST", "/v1/plugins/mine/activate?digest="+digests[1], "", 200, `"active":true`)
}

// TestPush_refused checks that a version that does not fit its profile does not enter
// the history that a rollback uses.
func TestPush_refused(t *testing.T) {
	h, _ := startHost(t, t.TempDir(),
		"plugins: [{name: mine}]\nprofiles: [{name: d, holdout: 0, scorers: [{builtin: roundrobin}, {plugin: mine}]}]\n")
	a, digests := h.plugins, []string{}
	for _, c := range []struct {
		name string
		ok   bool
	}{{"roundrobin", true}, {"prefixfirst", true}, {"leastwork", false}} {
		code, err := plugins.Code(c.name)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digestOf(code))
		if _, err := a.Push(t.Context(), "mine", code, true, ""); (err == nil) != c.ok {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	if _, err := a.Activate(t.Context(), "mine", digests[2]); err == nil {
		t.Error("a version that scores in another unit was activated")
	}
	if _, err := a.Rollback(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	if digest := activeDigest(t, h, "mine"); digest != digests[0] {
		t.Errorf("back to %s, want the first, %s", digest, digests[0])
	}
}
