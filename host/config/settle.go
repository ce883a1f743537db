package config

import (
	"reflect"
	"strings"
)

// When a change of a field counts, as its tag reload says. The tag of a field
// that holds others says nothing of those: each has its own.
const (
	reloadLive    = "live"    // with the next reload
	reloadRestart = "restart" // when the process starts again
)

// Settle returns next with the values of boot, the configuration that the process
// was started with, where a change waits for a restart, and a line for each such
// change: "listen.http: 127.0.0.1:80 → 127.0.0.1:81". Neither is changed.
func Settle(boot, next *Config) (settled *Config, waiting []string) {
	out := *next
	d := new(differ)
	settle(d, "", reflect.ValueOf(boot).Elem(), reflect.ValueOf(&out).Elem())
	return &out, d.out
}

// settle makes the fields of next that wait for a restart as those of boot. Only
// structs within structs are searched: a member of a list or map is live.
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

// ParseIdentity returns the identity section of a configuration file if that is
// well-formed and sound, whatever is wrong with the other sections; else nil.
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
	k.identity(&c.Identity, "x") // whether there is an authority is not for this section to say
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
