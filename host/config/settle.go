package config

import (
	"reflect"
	"strings"
)

// Values of the tag reload: when a change of a field takes effect. The tag of a struct
// does not apply to its fields: each field has its own.
const (
	reloadLive    = "live"    // at the next reload
	reloadRestart = "restart" // at the next start of the process
)

// Settle returns next with the values of boot, the configuration that the process
// was started with, for each field whose change requires a restart. waiting has a line
// for each such change: "listen.http: 127.0.0.1:80 → 127.0.0.1:81". boot and next are
// not modified.
func Settle(boot, next *Config) (settled *Config, waiting []string) {
	out := *next
	d := new(differ)
	settle(d, "", reflect.ValueOf(boot).Elem(), reflect.ValueOf(&out).Elem())
	if had := &boot.Listen.TLS; (had.CertFile == "") != (out.Listen.TLS.CertFile == "") { // TLS added or removed
		d.value("listen.tls", reflect.ValueOf(*had), reflect.ValueOf(out.Listen.TLS))
		out.Listen.TLS = *had
	}
	return &out, d.out
}

// settle sets the fields of next whose change requires a restart to the values of boot.
// It searches only structs within structs: members of lists and maps are live.
func settle(d *differ, path string, boot, next reflect.Value) {
	t := next.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		switch {
		case key == "-":
		case f.Tag.Get("reload") == reloadRestart:
			d.value(join(path, key), boot.Field(i), next.Field(i))
			next.Field(i).Set(boot.Field(i))
		case f.Type.Kind() == reflect.Struct:
			settle(d, join(path, key), boot.Field(i), next.Field(i))
		}
	}
}

// ParseIdentity returns the identity section of a configuration file if that section is
// well-formed and valid, even if other sections are invalid; else nil.
func ParseIdentity(data []byte, env func(string) (string, bool)) *Identity {
	c := new(Config)
	d := &decoder{env: env, lines: map[string]pos{}}
	if !d.document(data, c) {
		return nil
	}
	if _, there := d.lines["identity"]; !there {
		return nil
	}
	k := new(checker)
	k.identity(&c.Identity, "x") // listen.tls.client_ca_file is in another section, and not checked here
	for _, f := range d.errors {
		if inIdentity(f.path) {
			return nil
		}
	}
	for _, f := range k.out {
		if inIdentity(f.path) && !strings.HasSuffix(f.path, "_file") && !strings.Contains(f.path, "trusted_proxies") {
			return nil
		}
	}
	return &c.Identity
}

func inIdentity(path string) bool {
	return path == "identity" || strings.HasPrefix(path, "identity.")
}
