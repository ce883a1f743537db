package host

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/plugsign"
	"github.com/kvasir-router/kvasir/plugins"
)

// signers holds a configuration with a trusted key, and one module in three forms:
// unsigned, signed with this key, and signed with an unknown key.
type signers struct {
	rest                   string // rest of a configuration that trusts one key
	plain, signed, foreign []byte
}

func newSigners(t testing.TB) signers {
	t.Helper()
	code, err := plugins.Code("prefixfirst")
	if err != nil {
		t.Fatal(err)
	}
	s := signers{plain: code}
	for i, out := range []*[]byte{&s.signed, &s.foreign} {
		key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+i)), ed25519.SeedSize)))
		if *out, err = plugsign.Sign(code, key); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.rest = fmt.Sprintf("plugin_signatures: {required: true, keys: {release: %q}}\n",
				plugsign.FormatKey(key.Public().(ed25519.PublicKey)))
		}
	}
	return s
}

const usesMine = "plugins: [{name: mine}]\nprofiles: [{name: default, holdout: 0, scorers: [{plugin: mine}]}]\n"

// TestSignatures_push checks that pushed modules and shadows must be signed, and that
// the list names the signer.
func TestSignatures_push(t *testing.T) {
	s := newSigners(t)
	h, _ := startHost(t, t.TempDir(), s.rest+usesMine)
	a := h.plugins
	for _, c := range []struct {
		name, want string
		code       []byte
	}{
		{"not signed", "kvasir plugin sign FILE --key KEY", s.plain},
		{"signed with an unknown key", "required is release (", s.foreign},
		{"changed", "changed after signing",
			append(append([]byte(nil), s.signed[:20]...), append([]byte{s.signed[20] ^ 1}, s.signed[21:]...)...)},
	} {
		if _, err := a.Push(t.Context(), "mine", c.code, true, ""); !errors.Is(err, admin.ErrRefused) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if strings.Contains(listed(t, h), "mine") {
		t.Error("a refused module is stored")
	}
	v, err := a.Push(t.Context(), "mine", s.signed, true, "")
	if err != nil || v.Signer != "release" || !v.Used {
		t.Fatalf("signed: %v, %v", v, err)
	}
	if e := placeOne(t, h, "1"); e.Plugins[0].Name != "mine" || e.Plugins[0].Fault != "" {
		t.Errorf("placed by %+v", e.Plugins)
	}
	if list := listed(t, h); !strings.Contains(list, `"signer": "release"`) {
		t.Errorf("the list does not name the signer: %s", list)
	}
	if _, err := a.Shadow(t.Context(), "mine", s.foreign, ""); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), "no trusted key") {
		t.Errorf("shadow signed with an unknown key: %v", err)
	}
	if v, err := a.Shadow(t.Context(), "mine", s.signed, ""); err != nil || v.Signer != "release" {
		t.Errorf("signed shadow: %v, %v", v, err)
	}
}

// TestSignatures_start checks that at start a module of the store or of a named file that
// is not signed is set aside, and that another module takes its place.
func TestSignatures_start(t *testing.T) {
	s, state := newSigners(t), t.TempDir()
	h, _ := startHost(t, state, usesMine)
	if _, err := h.plugins.Push(t.Context(), "mine", s.plain, true, ""); err != nil {
		t.Fatal(err)
	}
	h.unlockState() // as if the router had stopped
	aside, log := startHost(t, state, s.rest+usesMine)
	if e := placeOne(t, aside, "1"); !strings.Contains(e.Plugins[0].Fault, "not signed") {
		t.Errorf("placed by %+v", e.Plugins)
	}
	if list := listed(t, aside); !strings.Contains(list, `"state": "aside"`) ||
		!strings.Contains(list, "kvasir plugin sign") || !strings.Contains(log.String(), "not signed") {
		t.Errorf("neither listed nor logged: %s\n%s", list, log)
	}
	file := filepath.Join(t.TempDir(), "mine.wasm")
	save(t, file, string(s.signed))
	aside.unlockState()
	byFile, _ := startHost(t, state, s.rest+strings.Replace(usesMine, "name: mine", "name: mine, file: "+file, 1))
	if e := placeOne(t, byFile, "1"); e.Plugins[0].Fault != "" || e.Plugins[0].Digest != digestOf(s.signed) {
		t.Errorf("the signed file is not used instead: %+v", e.Plugins)
	}
	shipped, _ := startHost(t, t.TempDir(),
		s.rest+"profiles: [{name: default, holdout: 0, scorers: [{plugin: prefixfirst}]}]\n")
	if e := placeOne(t, shipped, "1"); e.Plugins[0].Fault != "" || e.Plugins[0].Name != "prefixfirst" {
		t.Errorf("a shipped plugin requires a signature: %+v", e.Plugins)
	}
}

// TestSignatures_folder checks that a file saved in the watched folder must be signed.
func TestSignatures_folder(t *testing.T) {
	s, dir := newSigners(t), t.TempDir()
	h, log := startHost(t, t.TempDir(), s.rest+"profiles: [{name: default, holdout: 0}]\nplugin_dir: "+dir+"\n")
	file, now := filepath.Join(dir, "mine.wasm"), time.Now()
	h.now = func() time.Time { now = now.Add(time.Second); return now }
	look := func() {
		h.plugins.LookFolder(true)
		h.plugins.LookFolder(true)
	}
	save(t, file, string(s.plain))
	look()
	if e := placeOne(t, h, "1"); e.Plugins[0].Name == "mine" || !strings.Contains(log.String(), "mine.wasm") ||
		!strings.Contains(log.String(), "not signed") {
		t.Errorf("not signed: placed by %+v\n%s", e.Plugins, log)
	}
	save(t, file, string(s.signed))
	look()
	if e := placeOne(t, h, "2"); e.Plugins[0].Name != "mine" || e.Plugins[0].Fault != "" {
		t.Errorf("signed: placed by %+v\n%s", e.Plugins, log)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	look()
	if e := placeOne(t, h, "3"); e.Plugins[0].Name == "mine" {
		t.Errorf("deleted: placed by %+v", e.Plugins)
	}
}

// TestSignatures_keyGone checks that a key cannot be removed from the configuration while
// a module that it signed is in force. The refusal states the fix.
func TestSignatures_keyGone(t *testing.T) {
	s := newSigners(t)
	stays := ed25519.NewKeyFromSeed([]byte(strings.Repeat("c", ed25519.SeedSize)))
	line := func(name string, k ed25519.PrivateKey) string {
		return fmt.Sprintf("%s: %q", name, plugsign.FormatKey(k.Public().(ed25519.PublicKey)))
	}
	goes := line("goes", ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize))))
	both := "plugin_signatures: {required: true, keys: {" + goes + ", " + line("stays", stays) + "}}\n"
	h, _ := startHost(t, t.TempDir(), both+usesMine)
	a := h.plugins
	if _, err := a.Push(t.Context(), "mine", s.signed, true, ""); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	save(t, h.cfg.File, strings.Replace(string(b), goes+", ", "", 1))
	_, err = h.Reload()
	if err == nil {
		t.Fatal("the key is removed, and a module that it signed places requests")
	}
	demands(t, "refusal", err.Error(), "plugin mine (stored)", "no trusted key", "required is stays (",
		"kvasir plugin sign FILE --key KEY", "kvasir plugin rollback mine")
	if e := placeOne(t, h, "1"); e.Plugins[0].Name != "mine" || e.Plugins[0].Fault != "" {
		t.Errorf("after the refusal: placed by %+v", e.Plugins)
	}
	again, err := plugsign.Sign(s.plain, stays)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Push(t.Context(), "mine", again, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(); err != nil {
		t.Fatalf("after another module is in force: %v", err)
	}
	if _, err := a.Rollback(t.Context(), "mine"); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), "no trusted key") {
		t.Errorf("rollback to a module without a trusted signature: %v", err)
	}
	if list := listed(t, h); !strings.Contains(list, `"signer": "stays"`) {
		t.Errorf("in force: %s", list)
	}
}
