package rules

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
)

// emptyFor is how long a file must have been empty to count as emptied: an editor
// that writes in place empties it first.
const emptyFor = time.Second

// Withdraw removes from the revision in force what its files no longer grant: keys that
// are revoked or gone, keys of issuers that are no longer published, and tenants that
// the policy's data disables. If the identity section of the configuration is valid, it
// also removes certificates, issuers, a key file and the anonymous tenant that the
// section no longer names. Withdraw adds nothing and does not wait for a plan; an
// unreadable file withdraws nothing. It returns what was withdrawn, for operators.
// again reports that an empty file is too recent to count.
//
// asked reports that an operator requested it: then empty files count at once.
func (m *Manager) Withdraw(asked bool) (out []string, again bool) {
	c := m.identityFile()
	in := m.Policy()
	m.Disable(m.opt.Policies.Withdrawn(in.Config, in, false))
	for {
		epoch := m.credentialEpoch()
		l := m.Acquire()
		look := &withdrawal{m: m, r: l.Value(), asked: asked}
		look.read(c)
		done, err := m.withdraw(look.w, look.out, epoch)
		l.Release()
		if err != nil {
			m.opt.Log.Error("credentials not withdrawn", "err", err)
		}
		if done {
			return look.out, look.again
		}
	}
}

// identityFile returns the identity section of the configuration file if that section
// is valid, even if others are not; else nil.
func (m *Manager) identityFile() *config.Identity {
	b, err := os.ReadFile(m.opt.Boot.File)
	if err != nil {
		return nil
	}
	return config.ParseIdentity(b, os.LookupEnv)
}

// withdrawal compares the revision in force with its files once.
type withdrawal struct {
	m     *Manager
	r     *Revision // in force
	asked bool

	w     identity.Withdrawal
	out   []string // what is withdrawn, in words
	again bool
}

func (x *withdrawal) add(format string, args ...any) {
	x.out = append(x.out, fmt.Sprintf(format, args...))
}

// read compares everything; c is the identity section of the configuration file,
// nil = it is unavailable.
func (x *withdrawal) read(c *config.Identity) {
	now := &x.r.Config.Identity
	if c == nil {
		c = now
	}
	x.keys(now.APIKeysFile, c.APIKeysFile)
	if certs, err := c.Certificates(); err == nil {
		x.certificates(certs)
	}
	if was := x.r.Identity.Anonymous(); was != "" && was != c.Anonymous.Tenant {
		x.w.Anonymous = true
		x.add("anonymous tenant %s", was)
	}
	x.tokens(c)
}

// keys compares the keys in force, from the file was, with those of the file now;
// "" = none.
func (x *withdrawal) keys(was, now string) {
	k, complete := &identity.KeyFile{}, true
	if now != "" {
		if !x.settled(now) {
			return
		}
		var err error
		if k, complete, err = identity.ScanFile(now); err != nil {
			return
		}
	} else if was == "" {
		return
	}
	x.w.Keys = x.r.Identity.Withdrawn(k, complete, x.m.opt.Now())
	for i := range x.w.Keys {
		x.add("key %s of tenant %s", x.w.Keys[i].ID, x.w.Keys[i].Tenant)
	}
}

func (x *withdrawal) certificates(certs identity.Certificates) {
	for san, g := range x.r.Identity.Certificates() {
		if next, ok := certs[san]; !ok || next.Tenant != g.Tenant {
			x.w.Certificates = append(x.w.Certificates, san)
			x.add("certificate %s of tenant %s", san, g.Tenant)
		}
	}
}

// tokens withdraws keys of issuers.
func (x *withdrawal) tokens(c *config.Identity) {
	if x.r.Tokens == nil {
		return
	}
	empties := true
	for i := range c.JWT {
		if f := c.JWT[i].JWKSFile; f != "" && !x.settled(f) {
			empties = false
		}
	}
	keep := func(issuer string) bool {
		return slices.ContainsFunc(c.JWT, func(j config.JWT) bool { return j.Issuer == issuer })
	}
	x.out = append(x.out, x.r.Tokens.Withdraw(keep, empties)...)
}

// settled reports whether a file is not empty, or has been empty for long enough.
func (x *withdrawal) settled(name string) bool {
	st, err := os.Stat(name)
	if x.asked || err != nil || st.Size() > 64 {
		return true
	}
	b, err := os.ReadFile(name)
	if err != nil || len(bytes.TrimSpace(b)) > 0 || x.m.opt.Now().Sub(st.ModTime()) >= emptyFor {
		return true
	}
	x.again = true
	return false
}

// withdraw removes w from the credentials in force, unless they changed since epoch,
// and reports whether it did. what describes w for the log; if it is not empty, plans
// that have read credentials are made again.
func (m *Manager) withdraw(w identity.Withdrawal, what []string, epoch uint64) (done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch != epoch {
		return false, nil
	}
	if len(what) == 0 {
		return true, nil
	}
	if !w.Empty() {
		err = m.changeIdentityLocked(func(s *identity.Set) *identity.Set { return s.Without(&w) })
	}
	m.epoch++
	for _, s := range what {
		m.opt.Log.Warn("credential withdrawn", "what", s)
	}
	m.opt.Note("identity:withdraw", "credentials", err, "withdrawn", shorten(strings.Join(what, ", ")))
	return true, err
}

// shorten bounds a description in the audit log; the log has it in full.
func shorten(s string) string {
	const most = 2000
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// changeIdentityLocked publishes the rules in force with other credentials. The
// caller holds mu.
func (m *Manager) changeIdentityLocked(change func(*identity.Set) *identity.Set) error {
	l := m.Acquire()
	defer l.Release()
	next, err := l.Value().withIdentity(change(l.Value().Identity))
	if err != nil {
		return err
	}
	m.swap(next)
	m.epoch++
	return nil
}

// Disable implements live.Rules.
func (m *Manager) Disable(tenants []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.Acquire()
	was := l.Value().Identity.Disabled()
	l.Release()
	var out []string
	for _, t := range tenants {
		if !slices.Contains(was, t) {
			out = append(out, "tenant "+t)
		}
	}
	if len(out) == 0 {
		return
	}
	err := m.changeIdentityLocked(func(s *identity.Set) *identity.Set {
		return s.Without(&identity.Withdrawal{Tenants: tenants})
	})
	for _, s := range out {
		m.opt.Log.Warn("credential withdrawn", "what", s)
	}
	m.opt.Note("identity:withdraw", "credentials", err, "withdrawn", shorten(strings.Join(out, ", ")))
}

// enable ends the effect of Disable: the policy in force is that of the files.
func (m *Manager) enable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.Acquire()
	none := len(l.Value().Identity.Disabled()) == 0
	l.Release()
	if none {
		return nil
	}
	return m.changeIdentityLocked((*identity.Set).Enabled)
}
