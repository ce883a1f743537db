package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// pools checks the pools and returns their names.
func (k *checker) pools(pools []Pool) map[string]bool {
	if len(pools) == 0 {
		k.add("pools", "missing: write pools: [{name: main, endpoints: [\"http://host:8000\"]}]")
	}
	names, urls, total := map[string]bool{}, map[string]string{}, 0
	for i := range pools {
		p, path := &pools[i], fmt.Sprintf("pools[%d]", i)
		if p.Name == "" {
			k.add(path+".name", "missing")
		} else if names[p.Name] {
			k.add(path+".name", "duplicate pool name %q", p.Name)
		}
		names[p.Name] = true
		k.pool(path, p)
		k.autoscale(path+".autoscale", p, pools)
		k.endpoints(path, p, urls)
		total += len(p.Endpoints)
	}
	if total > MaxEndpoints {
		k.add("pools", "%d endpoints: want at most %d", total, MaxEndpoints)
	}
	return names
}

// pool checks the settings of one pool, except for its name and endpoints.
func (k *checker) pool(path string, p *Pool) {
	k.oneOf(path+".dialect", p.Dialect, dialect.Names()...)
	k.oneOf(path+".priority", p.Priority, "on", "off")
	k.oneOf(path+".events.mode", p.Events.Mode, "auto", "on", "off")
	k.oneOf(path+".fields.unknown", p.Fields.Unknown, "pass", "drop", "refuse")
	k.oneOf(path+".fields.internal", p.Fields.Internal, "drop", "refuse")
	k.oneOf(path+".isolation_probe.mode", p.Isolation.Mode, "auto", "on", "off")
	k.oneOf(path+".isolation_probe.unexplained", p.Isolation.Unexplained, "revoke", "log")
	if every := time.Duration(p.Isolation.Every); every < time.Second {
		k.add(path+".isolation_probe.every", "want at least 1s, got %v", every)
	}
	if p.BlockTokens > 1024 {
		k.add(path+".block_tokens", "want at most 1024, got %d", p.BlockTokens)
	}
	if p.Price < 0 || p.Price > 1e9 {
		k.add(path+".price", "want a number from 0 to 1e9, got %v", p.Price)
	}
	if _, ok := p.Labels["pool"]; ok {
		k.add(path+".labels", "label \"pool\" is reserved for the pool's name")
	}
	if _, ok := p.Labels["isolation"]; ok {
		k.add(path+".labels", "label \"isolation\" is reserved for the result of isolation_probe")
	}
	k.discover(path+".discover", &p.Discover)
	k.parser(path+".parser", p)
	k.engineTLS(path+".tls", &p.TLS)
	k.file(path+".credentials.bearer_file", p.Credentials.BearerFile)
}

// endpoints checks the endpoints that a pool lists; urls has the pool of each base
// URL before it.
func (k *checker) endpoints(path string, p *Pool, urls map[string]string) {
	if len(p.Endpoints) == 0 && !p.Autoscale.drives() && !p.Discover.On() {
		k.add(path+".endpoints", "missing: a pool needs endpoints, discover or an autoscale driver")
	}
	for j, u := range p.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", path, j)
		base, err := endpoint.ParseURL(u)
		if err != nil {
			k.add(at, "%v", err)
			continue
		}
		if other, found := urls[base.String()]; found {
			k.add(at, "duplicate endpoint %s: already in pool %q", base, other)
		}
		urls[base.String()] = p.Name
	}
	for j, s := range p.Events.Sources {
		if !slices.Contains(p.Endpoints, s.Endpoint) {
			k.add(fmt.Sprintf("%s.events.sources[%d].endpoint", path, j), "%q is not an endpoint of the pool", s.Endpoint)
		}
	}
}

func (k *checker) discover(path string, d *Discover) {
	if d.File != "" && d.DNS != "" {
		k.add(path, "set file or dns, not both")
	}
	if d.DNS == "" && d.Port != 0 || d.Port < 0 || d.Port > 65535 {
		k.add(path+".port", "want a port from 1 to 65535, with dns only, got %d", d.Port)
	}
	k.allow(path+".allow", d.Allow)
	if d.Plugin != "" && d.File == "" {
		k.add(path+".plugin", "requires file, which the plugin reads")
	}
	if d.Plugin != "" && len(d.Allow) == 0 {
		k.add(path+".allow", "missing: a plugin requires a list of allowed addresses, such as [10.0.0.0/8]")
	}
	if e := time.Duration(d.Every); d.Every != 0 && (e < 100*time.Millisecond || e > time.Hour) {
		k.add(path+".every", "want 100ms to 1h, got %v", e)
	}
}

// parser checks the plugin that reads the metrics of a pool's engines.
func (k *checker) parser(path string, p *Pool) {
	r := &p.Parser
	if r.Plugin == "" {
		if *r != (Parser{}) {
			k.add(path+".plugin", "missing")
		}
		return
	}
	if dialect.Of(p.Dialect).Metrics != "" {
		k.add(path, "requires dialect: openai: dialect %q has its own metrics", p.Dialect)
	}
	if !strings.HasPrefix(r.MetricsPath, "/") {
		k.add(path+".metrics_path", "want a path such as /stats, got %q", r.MetricsPath)
	}
	if r.HealthPath != "" && !strings.HasPrefix(r.HealthPath, "/") {
		k.add(path+".health_path", "want a path such as /ping, got %q", r.HealthPath)
	}
}

// engineTLS checks the files of a pool's TLS.
func (k *checker) engineTLS(path string, t *EngineTLS) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.add(path, "set both cert_file and key_file, or neither")
	}
	k.file(path+".ca_file", t.CAFile)
	k.file(path+".cert_file", t.CertFile)
	k.file(path+".key_file", t.KeyFile)
}
