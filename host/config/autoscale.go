package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Autoscale configures the number of endpoints of a pool. It is on if Max is set.
type Autoscale struct {
	// minimum number of endpoints; default 0: the pool may be empty after idle_after
	// without requests
	Min int `yaml:"min" reload:"live"`
	// maximum number of endpoints, including starting and draining ones; required
	Max int `yaml:"max" reload:"live"`
	// target utilization of the endpoints by the offered work; default 0.53: within 1 %
	// of the goodput of the best size; 0.7 uses a fifth fewer endpoints and loses up to
	// 2 points of goodput under swinging demand
	Target float64 `yaml:"target" reload:"live"`
	// how long a pool must not have needed its size before it shrinks; default 5m; at
	// least twice the cold start
	Window Duration `yaml:"window" reload:"live"`
	// time without requests after which the last endpoint is removed, with min 0;
	// default 15m
	IdleAfter Duration `yaml:"idle_after" reload:"live"`
	// time from order to readiness, until it has been measured; default 2m
	ColdStart Duration `yaml:"cold_start" reload:"live"`
	// how long a draining endpoint waits for its requests; default 15m
	DrainTimeout Duration `yaml:"drain_timeout" reload:"live"`
	// time limit for the driver to warm a machine before it receives requests ({"op":
	// "warm"}); default 0: no warm-up. Sending the most frequent prompts to a machine
	// changed the mean time to first token by -10 to +3 %
	WarmTimeout Duration `yaml:"warm_timeout" reload:"live"`
	// name of the pool whose demand this pool serves when that pool cannot get endpoints;
	// the settings of that pool then apply to both
	OverflowOf string `yaml:"overflow_of" reload:"live"`
	// true: report decisions and order nothing; a pool without a driver only cordons and
	// uncordons the endpoints that it lists
	DryRun bool `yaml:"dry_run" reload:"live"`
	// maximum number of requests that wait for the first endpoint, half of them of one
	// tenant; they count against limits.concurrent and their bodies against
	// limits.bytes_in_flight; default 256
	MaxHeld int `yaml:"max_held" reload:"live"`
	// maximum wait before such a request is refused with status 503, or with an error
	// event in its stream; streams receive a heartbeat every 5s meanwhile; default 10m
	MaxHold Duration `yaml:"max_hold" reload:"live"`
	// name of a plugin with the role x_autoscale that proposes the size of this pool and
	// its overflows instead of the built-in loop; limits, steps, draining and driver
	// stay; if it fails or abstains, the built-in size is used; experimental
	Plugin string `yaml:"plugin" reload:"live"`
	// true: the plugin is called and reported, and has no effect
	Shadow bool `yaml:"shadow" reload:"live"`
	// program that creates and removes endpoints
	Driver Driver `yaml:"driver" reload:"live"`
}

// Driver creates and removes endpoints: a command or a webhook.
type Driver struct {
	// program and arguments, without a shell; reads an order as JSON from standard input
	// and writes its machines
	Command []string `yaml:"command" reload:"live"`
	// URL that signed orders are posted to
	Webhook Webhook `yaml:"webhook" reload:"live"`
	// time limit of a call; default 30s
	Timeout Duration `yaml:"timeout" reload:"live"`
	// allowed addresses of machines: networks such as 10.0.0.0/8, host names, *.domain;
	// default 127.0.0.0/8
	Allow []string `yaml:"allow" reload:"live"`
}

// Webhook is a URL and the secret that signs requests to it.
type Webhook struct {
	// https, or http on loopback
	URL string `yaml:"url" reload:"live"`
	// file with the key of the signature, at least 16 characters
	SecretFile string `yaml:"secret_file" reload:"live"`
}

// On reports whether the pool is scaled.
func (a *Autoscale) On() bool { return a.Max > 0 }

// drives reports whether a driver creates the pool's endpoints.
func (a *Autoscale) drives() bool {
	return a.On() && (len(a.Driver.Command) > 0 || a.Driver.Webhook.URL != "")
}

func (a *Autoscale) defaults() {
	if !a.On() {
		return
	}
	or(&a.Target, 0.53)
	or(&a.Window, Duration(5*time.Minute))
	or(&a.IdleAfter, Duration(15*time.Minute))
	or(&a.ColdStart, Duration(2*time.Minute))
	or(&a.DrainTimeout, Duration(15*time.Minute))
	or(&a.MaxHeld, 256)
	or(&a.MaxHold, Duration(10*time.Minute)) // several cold starts of most engines, and the usual time limit of clients
	or(&a.Driver.Timeout, Duration(30*time.Second))
	if len(a.Driver.Allow) == 0 {
		a.Driver.Allow = []string{"127.0.0.0/8"}
	}
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

func (k *checker) autoscale(path string, p *Pool, pools []Pool) {
	a := &p.Autoscale
	if !a.On() {
		if !reflect.DeepEqual(*a, Autoscale{}) {
			k.add(path+".max", "missing: the other fields require it")
		}
		return
	}
	if a.Min < 0 || a.Max > MaxEndpoints || a.Min > a.Max {
		k.add(path, "want 0 ≤ min ≤ max ≤ %d, got min %d, max %d", MaxEndpoints, a.Min, a.Max)
	}
	if a.Target <= 0 || a.Target > 1 {
		k.add(path+".target", "want a share above 0 and at most 1, got %v", a.Target)
	}
	most := func(key string, d Duration, most time.Duration) {
		if time.Duration(d) > most {
			k.add(path+"."+key, "want at most %s, got %v", short(most), time.Duration(d))
		}
	}
	most("window", a.Window, time.Hour)
	most("idle_after", a.IdleAfter, 24*time.Hour)
	most("cold_start", a.ColdStart, time.Hour)
	most("drain_timeout", a.DrainTimeout, 24*time.Hour)
	most("warm_timeout", a.WarmTimeout, time.Hour)
	most("driver.timeout", a.Driver.Timeout, 10*time.Minute)
	if a.MaxHeld < 0 || a.MaxHeld > 1<<16 {
		k.add(path+".max_held", "want 0 to 65536, got %d", a.MaxHeld)
	}
	if d := time.Duration(a.MaxHold); d < 0 || d > time.Hour {
		k.add(path+".max_hold", "want at most 1h, got %v", d)
	}
	k.driver(path+".driver", &a.Driver)
	if a.Shadow && a.Plugin == "" {
		k.add(path+".shadow", "requires plugin")
	}
	if a.Plugin != "" && a.OverflowOf != "" {
		k.add(path+".plugin", "not allowed with overflow_of: name the plugin in pool %q", a.OverflowOf)
	}
	if a.OverflowOf == "" {
		return
	}
	i := slices.IndexFunc(pools, func(o Pool) bool { return o.Name == a.OverflowOf })
	switch {
	case a.OverflowOf == p.Name || i < 0:
		k.add(path+".overflow_of", "want the name of another pool, got %q", a.OverflowOf)
	case !pools[i].Autoscale.On():
		k.add(path+".overflow_of", "pool %q has no autoscale section", a.OverflowOf)
	case pools[i].Autoscale.OverflowOf != "":
		k.add(path+".overflow_of", "pool %q is itself an overflow pool: use %q", a.OverflowOf, pools[i].Autoscale.OverflowOf)
	}
}

// short formats d without trailing zero units.
func short(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
}

// overflows checks that an overflow pool serves the models of its pool: otherwise its
// machines would be of no use.
func (k *checker) overflows(c *Config) {
	for i := range c.Pools {
		p := &c.Pools[i]
		over := p.Autoscale.OverflowOf
		if over == "" || over == p.Name {
			continue
		}
		for _, m := range c.Models {
			serves := func(pool string) bool {
				return slices.ContainsFunc(m.Pools, func(mp ModelPool) bool { return mp.Name == pool })
			}
			if serves(over) && !serves(p.Name) {
				k.add(fmt.Sprintf("pools[%d].autoscale.overflow_of", i),
					"model %q is served by pool %q and not by its overflow %q: add it to the model's pools",
					m.Name, over, p.Name)
			}
		}
	}
}

func (k *checker) driver(path string, d *Driver) {
	if len(d.Command) > 0 && d.Webhook.URL != "" {
		k.add(path, "set command or webhook, not both")
	}
	if len(d.Command) > 0 && d.Command[0] == "" {
		k.add(path+".command", "empty program name")
	}
	k.allow(path+".allow", d.Allow)
	if d.Webhook.URL == "" {
		return
	}
	u, err := url.Parse(d.Webhook.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopbackHost(u.Hostname())) {
		k.add(path+".webhook.url", "want an https URL, or http on loopback, got %q", d.Webhook.URL)
	}
	if d.Webhook.SecretFile == "" {
		k.add(path+".webhook.secret_file", "missing: requests must be signed")
	}
	k.file(path+".webhook.secret_file", d.Webhook.SecretFile)
}

func loopbackHost(h string) bool {
	a, err := netip.ParseAddr(h)
	return h == "localhost" || err == nil && a.IsLoopback()
}

// allow checks a list of allowed addresses.
func (k *checker) allow(path string, list []string) {
	for i, s := range list {
		if _, err := netip.ParsePrefix(s); err != nil && !hostPattern.MatchString(s) {
			k.add(fmt.Sprintf("%s[%d]", path, i), "want a network such as 10.0.0.0/8, a host name or *.domain, got %q", s)
		}
	}
}

// Allows reports whether the driver may name a machine at host, an address or a name
// without a port.
func (d *Driver) Allows(host string) bool { return allows(d.Allow, host) }

// Allows reports whether an endpoint at host, an address or a name without a port,
// may be discovered.
func (d *Discover) Allows(host string) bool { return len(d.Allow) == 0 || allows(d.Allow, host) }

func allows(list []string, host string) bool {
	a, err := netip.ParseAddr(host)
	for _, s := range list {
		if n, e := netip.ParsePrefix(s); e == nil {
			if err == nil && n.Contains(a.Unmap()) {
				return true
			}
			continue
		}
		suffix, wild := strings.CutPrefix(s, "*")
		below := wild && err != nil && len(host) > len(suffix) && strings.EqualFold(host[len(host)-len(suffix):], suffix)
		if below || strings.EqualFold(s, host) {
			return true
		}
	}
	return false
}
