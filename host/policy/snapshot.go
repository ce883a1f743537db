package policy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Config holds the router's settings for a policy.
type Config struct {
	// Key is K_epoch, see LoadOrCreateKey.
	Key []byte
	// RequiredLabels are the labels that every allowed decision must constrain with
	// "in"; a decision without such a constraint is denied, because a rule over a
	// missing field is undefined, and so is its constraint. nil = pool; empty = none.
	RequiredLabels []string
	// AllowPublicScope lets the policy give the cache scope public.
	AllowPublicScope bool

	// Budget bounds one evaluation; 0 = 1s. An evaluation takes a fraction of a
	// millisecond, but the clock includes waiting for a processor: 100 ms on a
	// machine with eight times more work than processors. With more, a rule that
	// does not end would hold a processor for longer.
	Budget time.Duration
	// MaxEntries and MaxPerTenant bound the cached decisions; 0 = 65536 and 4096.
	MaxEntries, MaxPerTenant int
	// NoTests leaves the policy's own tests to the caller, who runs Test.
	NoTests bool
	// TestTime bounds the policy's own tests together; 0 = 10s.
	TestTime time.Duration
	// Counters may be shared by snapshots; nil = its own.
	Counters *Counters
}

func (c *Config) withDefaults() {
	if c.RequiredLabels == nil {
		c.RequiredLabels = []string{"pool"}
	}
	or := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	or(&c.MaxEntries, defaultMaxEntries)
	or(&c.MaxPerTenant, defaultPerTenant)
	if c.Budget == 0 {
		c.Budget = time.Second
	}
	if c.TestTime == 0 {
		c.TestTime = 10 * time.Second
	}
	if c.Counters == nil {
		c.Counters = new(Counters)
	}
}

// Validate reports all errors of c.
func (c *Config) Validate() error {
	var all []error
	if len(c.Key) != KeyBytes {
		all = append(all, fmt.Errorf("policy: key of %d bytes, want %d", len(c.Key), KeyBytes))
	}
	if slices.Contains(c.RequiredLabels, "") {
		all = append(all, errors.New("policy: required label without a name"))
	}
	if c.Budget < 0 || c.TestTime < 0 || c.MaxEntries < 0 || c.MaxPerTenant < 0 {
		all = append(all, errors.New("policy: negative bound"))
	}
	return errors.Join(all...)
}

// Snapshot is one policy and its data, ready to decide. It is immutable except for
// its cache, and safe for concurrent use. It owns nothing that must be closed.
type Snapshot struct {
	cfg      Config
	src      *Source
	prog     *program
	data     *dataset
	query    rego.PreparedEvalQuery
	cache    *cache
	revision string
	loaded   time.Time
	tests    int
	noTenant *Decision
	badInput *Decision
}

// Open reads a policy with ReadDir and loads it with Load.
func Open(dir, dataDir string, cfg Config) (*Snapshot, error) {
	src, err := ReadDir(dir, dataDir)
	if err != nil {
		return nil, err
	}
	return Load(src, cfg, nil)
}

// Load compiles, checks and tests a policy. It reuses compiled rules of prev, which
// may be nil, where they are the same. The error is Faults, all of them, if the
// policy is invalid.
func Load(src *Source, cfg Config, prev *Snapshot) (s *Snapshot, err error) {
	defer func() { // a panic in OPA must not end the router
		if p := recover(); p != nil {
			s, err = nil, Faults{{What: fmt.Sprintf("the policy cannot be compiled: %v", p),
				Fix: "revert the last change: the policy engine fails on it"}}
		}
	}()
	cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var f faults
	root := readData(src, &f)
	var p *program
	switch {
	case prev == nil:
		p = compile(src, nil, &f)
	case prev.src.policyDigest == src.policyDigest:
		p = prev.prog.with(src)
	default:
		p = compile(src, prev.prog, &f)
	}
	if p == nil {
		return nil, f.err()
	}
	checkData(root, p, &f)
	d := newDataset(root, src, &f)
	if err := f.err(); err != nil {
		return nil, err
	}
	s = &Snapshot{cfg: cfg, src: src, prog: p, data: d, loaded: time.Now()}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	if !cfg.NoTests {
		s.runTests(&f)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := s.warm(); err != nil {
		return nil, err
	}
	return s, nil
}

// with returns p for a source with the same modules and other data.
func (p *program) with(src *Source) *program {
	q := *p
	q.src = src
	return &q
}

func (s *Snapshot) prepare() (err error) {
	ctx := context.Background()
	if s.data.txn, err = s.data.store.NewTransaction(ctx); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	s.query, err = rego.New(rego.Query(decisionPath), rego.Compiler(s.prog.compiler), rego.Store(s.data.store),
		rego.Transaction(s.data.txn), rego.StrictBuiltinErrors(true), rego.GenerateJSON(asTerm)).PrepareForEval(ctx)
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	pol, data := s.src.Digest()
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %v", s.cfg.RequiredLabels, s.cfg.AllowPublicScope))
	s.revision = fmt.Sprintf("%s-%s-%x", pol, data, sum[:2])
	s.cache = newCache(s.cfg.MaxEntries, s.cfg.MaxPerTenant)
	s.noTenant = &Decision{Status: 401, Reason: "no_principal", Rules: []string{}, Revision: s.revision}
	s.badInput = &Decision{Status: 403, Reason: "input_invalid", Rules: []string{}, Revision: s.revision}
	return nil
}

// errBudget is what eval returns, wrapped, when Config.Budget is used up.
var errBudget = errors.New("policy: evaluation exceeded its time limit")

// asTerm keeps OPA from turning a result into Go maps.
func asTerm(t *ast.Term, _ *rego.EvalContext) (any, error) { return t, nil }

// warm evaluates once, so that OPA's lazy initialization is done, and a policy that
// cannot decide at all is reported at load.
func (s *Snapshot) warm() error {
	in := &Input{Principal: noPrincipal, Operation: "models"}
	if _, err := s.evaluate(in, new(Counters)); err != nil {
		l := s.prog.compiler.GetRulesExact(ast.MustParseRef(decisionPath))[0].Loc()
		fix := "make the decision deny requests that no rule covers"
		if errors.Is(err, errBudget) {
			fix = "simplify the rules: avoid loops over large data, and test membership by object keys"
		}
		return Faults{{File: l.File, Line: l.Row, Col: l.Col,
			What: "invalid decision for a request without a tenant: " + err.Error(), Fix: fix}}
	}
	return nil
}

// Revision returns an identifier of policy, data and settings.
func (s *Snapshot) Revision() string { return s.revision }

// Source returns what the snapshot was loaded from.
func (s *Snapshot) Source() *Source { return s.src }

// Inputs returns the input paths that the policy refers to: its decisions depend on
// them and are cached by them.
func (s *Snapshot) Inputs() []string { return slices.Clone(s.prog.inputs.paths) }

// Tests returns the number of the policy's own tests, which all passed.
func (s *Snapshot) Tests() int { return s.tests }

// Cached returns the number of cached decisions.
func (s *Snapshot) Cached() int { return s.cache.size() }

// keyBytes is the length of most keys; longer ones are allocated.
const keyBytes = 512

// Decide implements Engine. A cached decision allocates nothing. The error is the
// reason why the policy gave no decision; it is not the client's fault, and it is
// not cached.
func (s *Snapshot) Decide(in *Input) (*Decision, error) { return s.decide(in, s.cfg.Counters) }

// decide is Decide; it counts into c.
func (s *Snapshot) decide(in *Input, c *Counters) (*Decision, error) {
	if in.Principal == nil || in.Principal.Tenant == "" {
		return s.noTenant, nil
	}
	var buf [keyBytes]byte
	key, ok := s.prog.inputs.key(buf[:0], in)
	if !ok {
		return s.badInput, nil
	}
	e := s.cache.get(key, c)
	cached := e != nil
	if e == nil {
		var err error
		if e, err = s.miss(key, in, c); err != nil {
			return nil, err
		}
	}
	if in.Trace != nil {
		in.Trace.Cached = cached
	}
	if !e.perUser {
		return e.decision, nil
	}
	// Values have their lengths in a key, so a key with the user equals no key without it.
	key = append(binary.AppendUvarint(key, uint64(len(in.Principal.User))), in.Principal.User...)
	if u := s.cache.get(key, c); u != nil {
		return u.decision, nil
	}
	return s.missUser(key, in, e.verdict, c)
}

// miss computes the decision of a key that is not cached. It does not keep key.
func (s *Snapshot) miss(key []byte, in *Input, c *Counters) (*cacheEntry, error) {
	if !in.printable() {
		return &cacheEntry{decision: s.badInput}, nil
	}
	c.misses.Add(1)
	return s.cache.fill(key, in.Principal.Tenant, c, func() (*cacheEntry, error) {
		v, err := s.evaluate(in, c)
		if err != nil {
			c.errors.Add(1)
			return nil, err
		}
		return &cacheEntry{
			decision: s.bind(v, in), verdict: v, in: in.clone(),
			perUser: v.Allow && v.Scope == ScopeUser && !s.prog.inputs.uses[userAt],
		}, nil
	})
}

// missUser computes the decision of one user if the policy's decision is the same
// for all users and only the namespace differs.
func (s *Snapshot) missUser(key []byte, in *Input, v *verdict, c *Counters) (*Decision, error) {
	if !in.printable() {
		return s.badInput, nil
	}
	e, err := s.cache.fill(key, in.Principal.Tenant, c, func() (*cacheEntry, error) {
		return &cacheEntry{decision: s.bind(v, in), verdict: v}, nil
	})
	if err != nil {
		return nil, err
	}
	return e.decision, nil
}

// Uncached is Decide without the cache, for explain and as a reference in tests.
func (s *Snapshot) Uncached(in *Input) (*Decision, error) {
	if in.Principal == nil || in.Principal.Tenant == "" {
		return s.noTenant, nil
	}
	if _, ok := s.prog.inputs.key(nil, in); !ok || !in.printable() {
		return s.badInput, nil
	}
	v, err := s.evaluate(in, s.cfg.Counters)
	if err != nil {
		return nil, err
	}
	return s.bind(v, in), nil
}

// evaluate evaluates the policy for in.
func (s *Snapshot) evaluate(in *Input, c *Counters) (*verdict, error) {
	tracker := new(topdown.EvaluatedRuleTracker).WithAnnotationSet(s.prog.compiler.GetAnnotationSet())
	v, err := s.eval(s.prog.inputs.document(in), c, rego.EvalEvaluatedRuleTracker(tracker))
	if err != nil {
		return nil, err
	}
	out, err := decode(v, s.data.classes)
	if err != nil {
		return nil, err
	}
	out.Rules, out.Revision = ruleIDs(tracker), s.revision
	s.demand(out)
	return out, nil
}

// eval runs the query within the budget.
func (s *Snapshot) eval(input ast.Value, c *Counters, opts ...rego.EvalOption) (v ast.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("policy: evaluation: %v", p)
		}
	}()
	begun := time.Now()
	cancel := topdown.NewCancel()
	timer := time.AfterFunc(s.cfg.Budget, cancel.Cancel)
	defer timer.Stop()
	rs, err := s.query.Eval(context.Background(), append(opts, rego.EvalParsedInput(input),
		rego.EvalExternalCancel(cancel), rego.EvalTransaction(s.data.txn),
		rego.EvalSortSets(false), rego.EvalCopyMaps(false))...)
	c.evaluations.Add(1)
	c.evalNanos.Add(uint64(time.Since(begun)))
	switch {
	case topdown.IsCancel(err):
		return nil, fmt.Errorf("%w of %v", errBudget, s.cfg.Budget)
	case err != nil:
		return nil, fmt.Errorf("policy: evaluation: %w", err)
	case len(rs) == 0:
		return nil, errors.New("policy: " + decisionPath + " is undefined")
	case len(rs) != 1 || len(rs[0].Expressions) != 1:
		return nil, errors.New("policy: " + decisionPath + " has more than one value")
	}
	t, ok := rs[0].Expressions[0].Value.(*ast.Term)
	if !ok {
		return nil, errors.New("policy: " + decisionPath + " has no value")
	}
	return t.Value, nil
}

// ruleIDs returns the ids in the annotations of the rules that held.
func ruleIDs(t *topdown.EvaluatedRuleTracker) []string {
	ids := []string{}
	for _, l := range t.Labels {
		if id, ok := l["id"].(string); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// demand turns an allowed decision into a denial if it lacks a required label or
// has a scope that the configuration does not allow.
func (s *Snapshot) demand(v *verdict) {
	if !v.Allow {
		return
	}
	for _, label := range s.cfg.RequiredLabels {
		if !slices.ContainsFunc(v.Constraints, func(c Constraint) bool { return c.Label == label && !c.NotIn }) {
			v.refuse(reasonIncomplete)
			return
		}
	}
	if v.Scope == ScopePublic && !s.cfg.AllowPublicScope {
		v.refuse("public_scope_not_allowed")
	}
}

func (v *verdict) refuse(reason string) {
	v.Decision = Decision{Status: statusUnavailable, Reason: reason, Rules: v.Rules, Revision: v.Revision,
		Audit: AuditFull}
}

// bind returns the decision for the principal of in, from the policy's verdict.
// Without a user name, scope user becomes scope none.
func (s *Snapshot) bind(v *verdict, in *Input) *Decision {
	d := v.Decision
	if !d.Allow {
		d.Scope = ""
		return &d
	}
	namespace := in.Principal.Tenant
	switch d.Scope {
	case ScopeUser:
		if in.Principal.User == "" {
			d.Scope = ScopeNone
		}
		namespace += "\x00" + in.Principal.User // no tenant's id has a zero byte
	case ScopeGroup:
		namespace = v.group
	}
	if d.Namespace = NamespaceHash(s.cfg.Key, d.Scope, namespace); d.Scope != ScopeNone {
		d.Salt = Salt(s.cfg.Key, d.Scope, namespace)
	}
	return &d
}
