package policy

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/kvasir-router/kvasir/host/identity"
)

// leaf is one value of the input document.
type leaf uint8

const (
	leafVersion leaf = iota
	leafTenantID
	leafTenantUser
	leafTenantGroups
	leafTenantScopes
	leafAuthMethod
	leafAuthIssuer
	leafOperation
	leafModel
	leafAdapter
	leafStream
	leafPriority
	leafSizeClass
	leafLabels
	leafRegion
	leafHour
	leafCapacity
	leaves
)

// leafPaths are the paths of the leaves in the input document, in the order of the
// document: the leaves of one object are consecutive.
var leafPaths = [leaves]string{"version", "tenant.id", "tenant.user", "tenant.groups", "tenant.scopes",
	"tenant.auth.method", "tenant.auth.issuer",
	"request.operation", "request.model", "request.adapter", "request.stream", "request.priority",
	"request.size_class", "request.labels",
	"router.region", "router.hour_utc", "router.capacity_state"}

// inputSet is the part of the input document that a policy refers to. A decision
// is made from these values alone: they are the key of the cache, and the document
// that Rego reads contains nothing else. So decisions of equal keys are equal, even if
// the references that OPA reports are incomplete.
type inputSet struct {
	uses   [leaves]bool
	labels []string // names of the labels it refers to, sorted; nil with uses[leafLabels] = all
	paths  []string // as the policy writes them, sorted, for reports
}

// newInputSet returns the inputs among the references of p. A reference to a path
// that the router does not fill is an error.
func newInputSet(refs []ast.Ref, p *program, f *faults) *inputSet {
	s := new(inputSet)
	for _, r := range refs {
		if len(r) == 0 || !r[0].Equal(ast.InputRootDocument) {
			continue
		}
		path := refPath(r[1:])
		if path == "" {
			s.fault(f, p, r, "a rule refers to input as a whole",
				"name the fields that it needs, such as input.tenant.id: decisions are cached by the fields that rules name")
			continue
		}
		s.paths = append(s.paths, "input."+path)
		if !s.take(path) {
			s.fault(f, p, r, "unknown field input."+path, nearest(path, leafPaths[:]))
		}
	}
	slices.Sort(s.paths)
	slices.Sort(s.labels)
	s.labels = slices.Compact(s.labels)
	if s.uses[leafLabels] {
		s.labels = nil
	}
	return s
}

// take adds the leaves at path and below, and reports whether there are any.
func (s *inputSet) take(path string) (found bool) {
	for l, at := range leafPaths {
		name, below := strings.CutPrefix(path, at+".")
		switch {
		case below && leaf(l) == leafLabels:
			s.labels = append(s.labels, name)
			found = true
		case below || path == at || strings.HasPrefix(at, path+"."):
			s.uses[l], found = true, true
		}
	}
	return found
}

func (s *inputSet) fault(f *faults, p *program, r ast.Ref, what, fix string) {
	at := p.locate(func(x ast.Ref) bool { return len(r) <= len(x) && x[:len(r)].Equal(r) })
	if refPath(r[1:]) == "" {
		at = p.locateWholeInput()
	}
	if at == nil {
		at = p.compiler.GetRulesExact(ast.MustParseRef(decisionPath))[0].Loc()
	}
	f.add(at.File, at.Row, at.Col, what, fix)
}

// refPath returns the path of a constant reference, its parts joined by dots.
func refPath(r ast.Ref) string {
	var parts []string
	for _, t := range r {
		if v, ok := t.Value.(ast.String); ok {
			parts = append(parts, string(v))
		} else {
			parts = append(parts, t.String())
		}
	}
	return strings.Join(parts, ".")
}

// Bounds of the strings of an input, so that one client cannot evict many decisions
// of others from the cache.
const (
	maxInputString = 256
	maxInputList   = 64 // groups, scopes, labels
)

// key appends the values of in that the policy refers to, each with its length,
// in the order of the leaves, followed by the tenant, to whose namespace the
// decision belongs. ok is false if a value is out of bounds.
func (s *inputSet) key(b []byte, in *Input) (_ []byte, ok bool) {
	ok = true
	str := func(v string) {
		ok = ok && len(v) <= maxInputString
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	list := func(vs []string) {
		ok = ok && len(vs) <= maxInputList
		b = binary.AppendUvarint(b, uint64(len(vs)))
		for _, v := range vs {
			str(v)
		}
	}
	p := in.Principal
	for l, used := range s.uses {
		if !used {
			continue
		}
		switch leaf(l) {
		case leafTenantUser:
			str(p.User)
		case leafTenantGroups:
			list(p.Groups)
		case leafTenantScopes:
			list(p.Scopes)
		case leafAuthMethod:
			str(p.Method)
		case leafAuthIssuer:
			str(p.Issuer)
		case leafOperation:
			str(in.Operation)
		case leafModel:
			str(in.Model)
		case leafAdapter:
			str(in.Adapter)
		case leafStream:
			b = append(b, bit(in.Stream))
		case leafPriority:
			str(in.Priority)
		case leafSizeClass:
			str(in.SizeClass)
		case leafLabels:
			ok = ok && len(in.Labels) <= maxInputList
			b = binary.AppendUvarint(b, uint64(len(in.Labels)))
			for i := range in.Labels {
				str(in.Labels[i].Name)
				str(in.Labels[i].Value)
			}
		case leafRegion:
			str(in.Region)
		case leafHour:
			b = binary.AppendVarint(b, int64(in.HourUTC))
		case leafCapacity:
			str(in.CapacityState)
		}
	}
	for _, name := range s.labels {
		v, there := in.label(name)
		b = append(b, bit(there))
		str(v)
	}
	str(p.Tenant)
	return b, ok
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// label returns the value of a label.
func (in *Input) label(name string) (string, bool) {
	for i := range in.Labels {
		if in.Labels[i].Name == name {
			return in.Labels[i].Value, true
		}
	}
	return "", false
}

// document returns the input document of the values that the policy refers to;
// s nil = of all values.
func (s *inputSet) document(in *Input) ast.Value {
	p := in.Principal
	b := docBuilder{s: s}
	tenant, auth, request, router := b.object(), b.object(), b.object(), b.object()
	root := b.object()
	b.put(root, leafVersion, "version", ast.String("1"))
	b.put(tenant, leafTenantID, "id", ast.String(p.Tenant))
	b.put(tenant, leafTenantUser, "user", ast.String(p.User))
	b.putList(tenant, leafTenantGroups, "groups", p.Groups)
	b.putList(tenant, leafTenantScopes, "scopes", p.Scopes)
	b.put(auth, leafAuthMethod, "method", ast.String(p.Method))
	b.put(auth, leafAuthIssuer, "issuer", ast.String(p.Issuer))
	b.put(request, leafOperation, "operation", ast.String(in.Operation))
	b.put(request, leafModel, "model", ast.String(in.Model))
	b.put(request, leafAdapter, "adapter", ast.String(in.Adapter))
	b.put(request, leafStream, "stream", ast.Boolean(in.Stream))
	b.put(request, leafPriority, "priority", ast.String(in.Priority))
	b.put(request, leafSizeClass, "size_class", ast.String(in.SizeClass))
	request.Insert(ast.StringTerm("labels"), ast.NewTerm(b.labels(in)))
	b.put(router, leafRegion, "region", ast.String(in.Region))
	b.put(router, leafHour, "hour_utc", ast.Number(fmt.Sprint(in.HourUTC)))
	b.put(router, leafCapacity, "capacity_state", ast.String(in.CapacityState))
	tenant.Insert(ast.StringTerm("auth"), ast.NewTerm(auth))
	root.Insert(ast.StringTerm("tenant"), ast.NewTerm(tenant))
	root.Insert(ast.StringTerm("request"), ast.NewTerm(request))
	root.Insert(ast.StringTerm("router"), ast.NewTerm(router))
	return root
}

// docBuilder adds the leaves that are used to objects.
type docBuilder struct{ s *inputSet }

func (b *docBuilder) object() ast.Object { return ast.NewObject() }

func (b *docBuilder) put(o ast.Object, l leaf, key string, v ast.Value) {
	if b.s == nil || b.s.uses[l] {
		o.Insert(ast.StringTerm(key), ast.NewTerm(v))
	}
}

func (b *docBuilder) putList(o ast.Object, l leaf, key string, vs []string) {
	if b.s != nil && !b.s.uses[l] {
		return
	}
	terms := make([]*ast.Term, len(vs))
	for i, v := range vs {
		terms[i] = ast.StringTerm(v)
	}
	b.put(o, l, key, ast.NewArray(terms...))
}

func (b *docBuilder) labels(in *Input) ast.Object {
	o := ast.NewObject()
	for i := range in.Labels {
		if l := &in.Labels[i]; b.s == nil || b.s.uses[leafLabels] || slices.Contains(b.s.labels, l.Name) {
			o.Insert(ast.StringTerm(l.Name), ast.StringTerm(l.Value))
		}
	}
	return o
}

// clone returns a copy of in that shares no memory with the caller's buffers.
func (in *Input) clone() *Input {
	c := *in
	c.Trace = nil
	for _, s := range []*string{&c.Operation, &c.Model, &c.Adapter, &c.Priority, &c.SizeClass, &c.Region,
		&c.CapacityState} {
		*s = strings.Clone(*s)
	}
	c.Labels = make([]Label, len(in.Labels))
	for i, l := range in.Labels {
		c.Labels[i] = Label{Name: strings.Clone(l.Name), Value: strings.Clone(l.Value)}
	}
	return &c
}

// noPrincipal is the principal of an input without one.
var noPrincipal = new(identity.Principal)
