package fleet

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// signer signs tokens with OpenSSL.
type signer struct{ kid, file string }

func openssl(t *testing.T, in []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Stdin = bytes.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("openssl %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return b
}

func newSigner(t *testing.T, kid string) signer {
	t.Helper()
	s := signer{kid, filepath.Join(t.TempDir(), "key.pem")}
	openssl(t, nil, "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", s.file)
	return s
}

var b64 = base64.RawURLEncoding

// jwk returns the public key: the modulus that OpenSSL prints, and OpenSSL's default exponent.
func (s signer) jwk(t *testing.T) string {
	t.Helper()
	text := strings.TrimSpace(string(openssl(t, nil, "rsa", "-in", s.file, "-noout", "-modulus")))
	n, err := hex.DecodeString(strings.TrimPrefix(text, "Modulus="))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"kty":"RSA","use":"sig","kid":%q,"n":%q,"e":"AQAB"}`, s.kid, b64.EncodeToString(n))
}

func (s signer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	text := b64.EncodeToString([]byte(`{"alg":"RS256","kid":"`+s.kid+`"}`)) + "." + b64.EncodeToString(body)
	return text + "." + b64.EncodeToString(openssl(t, []byte(text), "dgst", "-sha256", "-sign", s.file))
}

// TestJWT sends requests with tokens of an issuer that rotates its keys, on both
// listeners.
func TestJWT(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "k1"), newSigner(t, "k2")
	var keys atomic.Pointer[string]
	publish := func(list ...string) {
		s := `{"keys":[` + strings.Join(list, ",") + `]}`
		keys.Store(&s)
	}
	publish(first.jwk(t))
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, *keys.Load())
	}))
	defer idp.Close()
	d := harness.StartDev(t, "--engines", "1")
	r := harness.Serve(t, `listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: {STATE}
identity:
  jwt:
  - issuer: "https://idp.example"
    audience: kvasir
    jwks_url: "`+idp.URL+`"
    algorithms: [RS256]
    tenant_claim: org
    tenants: [acme]
    admin: true
  - {issuer: "https://partner.example", audience: kvasir, jwks_url: "`+idp.URL+`", algorithms: [RS256], tenant: partner}
pools: [{name: main, endpoints: ["`+d.Engines[0].URL+`"]}]
models: [{name: m, pools: [main]}]
`)
	claims := func(change map[string]any) map[string]any {
		c := map[string]any{"iss": "https://idp.example", "aud": "kvasir", "sub": "u1", "org": "acme",
			"exp": time.Now().Add(time.Hour).Unix(), "scope": "infer plugin:read explain:own"}
		for k, v := range change {
			if v == nil {
				delete(c, k)
			} else {
				c[k] = v
			}
		}
		return c
	}
	good := first.token(t, claims(nil))
	partner := first.token(t, claims(map[string]any{"iss": "https://partner.example"}))
	for token, want := range map[string]string{
		good: "200 ", partner: "200 ",
		first.token(t, claims(map[string]any{"aud": "other"})):                                 "401 audience",
		first.token(t, claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})):     "401 expired",
		first.token(t, claims(map[string]any{"org": "globex"})):                                "401 tenant",
		first.token(t, claims(map[string]any{"iss": "https://evil.example"})):                  "401 issuer",
		second.token(t, claims(nil)):                                                           "401 key",
		good[:len(good)-8] + "AAAAAAAA":                                                        "401 signature",
		b64.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(good, ".")[1] + ".": "401 algorithm",
	} {
		for range 2 {
			status, body := harness.GetBody(r.URL+"/v1/models", token)
			code, word, _ := strings.Cut(want, " ")
			if fmt.Sprint(status) != code || !strings.Contains(string(body), word) {
				t.Errorf("got %d %s, want %s", status, body, want)
			}
		}
	}
	for path, want := range map[string]int{"/v1/plugins": 200, "/v1/status": 403, "/v1/keys": 403} {
		if got, b := harness.GetBody(r.Admin+path, good); got != want {
			t.Errorf("%s with a token: %d %s, want %d", path, got, b, want)
		}
		if got, b := harness.GetBody(r.Admin+path, partner); got != 401 {
			t.Errorf("%s with a token of an issuer without admin: %d %s", path, got, b)
		}
	}
	publish(second.jwk(t))
	next := second.token(t, claims(nil))
	tick := time.NewTicker(time.Second) // a shorter period would exhaust the budget of failed attempts
	defer tick.Stop()
	for n := 0; harness.Get(r.URL+"/v1/models", next) != 200; n++ {
		if n == 30 {
			t.Fatal("a token of the issuer's other key is not accepted")
		}
		<-tick.C
	}
	if got := harness.Get(r.URL+"/v1/models", good); got != 401 {
		t.Errorf("a token of the removed key: %d", got)
	}
	_, m := harness.GetBody(r.Admin+"/metrics", r.Token)
	for _, line := range []string{`kvasir_jwt_refused_total{reason="expired"} 2`,
		`kvasir_jwks_keys{issuer="https://idp.example"} 1`} {
		if !strings.Contains(string(m), line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	text := r.Log.String()
	log, err := os.ReadFile(filepath.Join(filepath.Dir(r.Config), "state", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{good, next, partner} {
		for _, part := range strings.Split(token, ".") {
			if strings.Contains(text, part) || strings.Contains(string(log), part) {
				t.Error("a log contains a part of a token")
			}
		}
	}
}
