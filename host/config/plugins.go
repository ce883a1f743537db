package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/kvasir-router/kvasir/host/plugsign"
	"github.com/kvasir-router/kvasir/plugins"
)

// Builtin is the name of the built-in picker.
const Builtin = "builtin"

// MaxUses is the maximum number of scorers, and of filters, of a profile: each costs
// a call per decision, and explain keeps each scorer's score of each candidate.
const MaxUses = 4

// maxPluginMemory is the maximum memory of one instance, in bytes.
const maxPluginMemory = 64 << 20

// maxCall is the maximum processor time of a call: with a longer one, a plugin would
// place fewer than ten requests per second.
const maxCall = 100 * time.Millisecond

// maxTrial is the engine's own time limit for compiling and checking a module.
const maxTrial = 3 * time.Minute

// grants are the host modules that a plugin may import.
var grants = []string{"log", "kv", "metrics"}

var pluginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// plugins checks the plugins and returns the names that profiles and pools may use.
func (k *checker) plugins(ps []Plugin) map[string]bool {
	names, usable := map[string]bool{}, map[string]bool{}
	for _, n := range plugins.Names {
		usable[n] = true
	}
	for i := range ps {
		p, path := &ps[i], fmt.Sprintf("plugins[%d]", i)
		switch {
		case p.Name == "":
			k.add(path+".name", "missing")
		case !pluginName.MatchString(p.Name):
			k.add(path+".name", "want lower-case letters, digits and -, beginning with a letter, got %q", p.Name)
		case names[p.Name]:
			k.add(path+".name", "duplicate plugin name %q", p.Name)
		}
		names[p.Name], usable[p.Name] = true, true
		for j, g := range p.Grants {
			k.oneOf(fmt.Sprintf("%s.grants[%d]", path, j), g, grants...)
		}
		if p.Limits.Memory > maxPluginMemory {
			k.add(path+".limits.memory", "want at most 64MiB, got %d bytes", p.Limits.Memory)
		}
		if p.Limits.Call < 0 || p.Limits.Call > Duration(maxCall) {
			k.add(path+".limits.call", "want more than 0 and at most %v, got %v", maxCall, time.Duration(p.Limits.Call))
		}
	}
	return usable
}

// pluginStore checks the bounds of what is pushed.
func (k *checker) pluginStore(s *PluginStore) {
	if s.Trial < 0 || s.Trial > Duration(maxTrial) {
		k.add("plugin_store.trial", "want more than 0 and at most %v, got %v", maxTrial, time.Duration(s.Trial))
	}
	if s.Bytes < 0 || s.PusherBytes < 0 {
		k.add("plugin_store", "want bytes and pusher_bytes of more than 0, got %d and %d", s.Bytes, s.PusherBytes)
	}
}

// absent returns an error for each plugin file that does not exist.
func (d *decoder) absent(c *Config) Errors {
	k := new(checker)
	for i := range c.Plugins {
		k.file(fmt.Sprintf("plugins[%d].file", i), c.Plugins[i].File)
	}
	e := &decoder{lines: d.lines}
	for _, f := range k.out {
		e.errorAt(f.path, f.text)
	}
	return e.sorted(c.File)
}

// maxSignatureKeys is the maximum number of keys, each of which is tried on a module.
const maxSignatureKeys = 16

// signatures checks the keys of plugin signatures.
func (k *checker) signatures(s *Signatures) {
	if s.Required && len(s.Keys) == 0 {
		k.add("plugin_signatures", "required: true without keys refuses every module: add a key (kvasir plugin keygen)")
	}
	if len(s.Keys) > maxSignatureKeys {
		k.add("plugin_signatures.keys", "%d keys: want at most %d", len(s.Keys), maxSignatureKeys)
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		path, text := "plugin_signatures.keys."+name, s.Keys[name]
		if !pluginName.MatchString(name) {
			k.add(path, "want a name of lower-case letters, digits and -, beginning with a letter, got %q", name)
		}
		if _, err := plugsign.ParseKey(text); err != nil {
			k.add(path, "want a public key as kvasir plugin keygen prints it, ed25519:…, got %.80q", text)
		}
		if names[text] != "" {
			k.add(path, "duplicate key: already named %s", names[text])
		}
		names[text] = name
	}
}

// known checks that a plugin of a name exists.
func (k *checker) known(at, name string, usable map[string]bool) {
	if !usable[name] {
		k.add(at, "unknown plugin %[1]q: add plugins: [{name: %[1]s}], or use one that ships with the router (%[2]v)",
			name, plugins.Names)
	}
}

// poolPlugins checks the plugins that pools name.
func (k *checker) poolPlugins(pools []Pool, usable map[string]bool) {
	for i := range pools {
		p := &pools[i]
		for _, u := range []struct{ at, name string }{
			{"autoscale", p.Autoscale.Plugin}, {"parser", p.Parser.Plugin}, {"discover", p.Discover.Plugin},
		} {
			if u.name != "" {
				k.known(fmt.Sprintf("pools[%d].%s.plugin", i, u.at), u.name, usable)
			}
		}
	}
}

// uses checks the plugins that a profile names.
func (k *checker) uses(p *Profile, path string, usable map[string]bool) {
	known := func(at, name string) { k.known(at, name, usable) }
	if n := max(len(p.Scorers), len(p.Filters)); n > MaxUses {
		k.add(path, "%d scorers or filters: want at most %d", n, MaxUses)
	}
	scorers := map[string]bool{}
	for i := range p.Scorers {
		s, at := &p.Scorers[i], fmt.Sprintf("%s.scorers[%d]", path, i)
		switch {
		case (s.Plugin == "") == (s.Builtin == ""):
			k.add(at, "want either plugin or builtin")
		case s.Builtin == "":
			known(at+".plugin", s.Plugin)
		case s.Config != "":
			k.add(at+".config", "config is not allowed with builtin")
		default:
			k.oneOf(at+".builtin", s.Builtin, "leastwork", "roundrobin")
		}
		if scorers[s.Name()] {
			k.add(at, "duplicate scorer %q", s.Name())
		}
		scorers[s.Name()] = true
	}
	for i, f := range p.Filters {
		known(fmt.Sprintf("%s.filters[%d]", path, i), f)
		if slices.Contains(p.Filters[:i], f) {
			k.add(fmt.Sprintf("%s.filters[%d]", path, i), "duplicate filter %q", f)
		}
	}
	if p.Picker != Builtin {
		known(path+".picker", p.Picker)
	}
}

// json decodes a mapping of any shape.
func (d *decoder) json(n ast.Node, p *JSON, path string) {
	v, ok := d.plain(n, path)
	if !ok {
		return
	}
	if _, isMap := v.(map[string]any); !isMap {
		d.errorf(n, path, "want a mapping of keys to values")
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		d.errorf(n, path, "cannot be written as JSON: %v", err)
		return
	}
	*p = JSON(b)
}

// plain returns a node as the value that encoding/json decodes from its JSON equivalent.
func (d *decoder) plain(n ast.Node, path string) (any, bool) {
	if n = d.resolve(n, path); n == nil {
		return nil, false
	}
	switch x := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		members, ok := d.mapping(n, path)
		out := map[string]any{}
		for _, m := range members {
			v, good := d.plain(m.val, join(path, m.key))
			out[m.key], ok = v, ok && good
		}
		return out, ok
	case *ast.SequenceNode:
		out, ok := make([]any, len(x.Values)), true
		for i, e := range x.Values {
			v, good := d.plain(e, fmt.Sprintf("%s[%d]", path, i))
			out[i], ok = v, ok && good
		}
		return out, ok
	case *ast.NullNode:
		return nil, true
	case *ast.BoolNode:
		return x.Value, true
	case *ast.IntegerNode:
		return x.Value, true
	case *ast.FloatNode:
		return x.Value, true
	}
	return d.text(n, path)
}
