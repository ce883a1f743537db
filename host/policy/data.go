package policy

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// dataset is the data of one policy. It is immutable.
type dataset struct {
	store   storage.Store
	txn     storage.Transaction // one read transaction for all evaluations: there are no writes
	tree    *jsonNode
	classes map[string]int // priority of each class
}

// readData merges the data files of src, as OPA does with a directory: the members
// of a file in folder a/b are members of data.a.b. A key that two files define is an
// error.
func readData(src *Source, f *faults) *jsonNode {
	root := &jsonNode{kind: jsonObject}
	for _, name := range slices.Sorted(maps.Keys(src.data)) {
		n, bad := parseJSON(src.data[name])
		if bad == nil && n.kind != jsonObject {
			bad = &jsonError{0, "not an object"}
		}
		if bad != nil {
			line, col := lineCol(src.data[name], bad.at)
			f.add(dataName(name), line, col, bad.what, `write JSON such as {"tenants": {"acme": {…}}}`)
			continue
		}
		n.setFile(name)
		at := root
		if dir := path.Dir(name); dir != "." {
			for _, part := range strings.Split(dir, "/") {
				at = at.child(part, name)
			}
		}
		merge(at, n, src, f)
	}
	return root
}

// dataName is the name of a data file in errors.
func dataName(name string) string { return path.Join(dataFolder, name) }

func (n *jsonNode) setFile(name string) {
	n.file = name
	for _, e := range n.elems {
		e.setFile(name)
	}
}

// child returns the object at key, and creates it if it is missing.
func (n *jsonNode) child(key, file string) *jsonNode {
	if c := n.get(key); c != nil {
		return c
	}
	c := &jsonNode{kind: jsonObject, file: file}
	n.keys, n.keyAt, n.elems = append(n.keys, key), append(n.keyAt, 0), append(n.elems, c)
	return c
}

// merge adds the members of from to into. Objects that both have are merged.
func merge(into, from *jsonNode, src *Source, f *faults) {
	have := make(map[string]*jsonNode, len(into.keys))
	for i, k := range into.keys {
		have[k] = into.elems[i]
	}
	for i, k := range from.keys {
		v := from.elems[i]
		old := have[k]
		switch {
		case old == nil:
			into.keys, into.keyAt, into.elems = append(into.keys, k), append(into.keyAt, from.keyAt[i]), append(into.elems, v)
		case old.kind == jsonObject && v.kind == jsonObject:
			merge(old, v, src, f)
		default:
			line, col := lineCol(src.data[from.file], from.keyAt[i])
			f.add(dataName(from.file), line, col, fmt.Sprintf("duplicate key %.80q, also in %s", k, dataName(old.file)),
				"delete one of them")
		}
	}
}

// checkData checks data against the schemas and the packages of the policy.
func checkData(root *jsonNode, p *program, f *faults) {
	report := func(n *jsonNode, at int, what, fix string) {
		line, col := lineCol(p.src.data[n.file], at)
		f.add(dataName(n.file), line, col, what, fix)
	}
	for i, k := range root.keys {
		if rules := p.compiler.GetRulesWithPrefix(ast.Ref{ast.DefaultRootDocument, ast.StringTerm(k)}); len(rules) > 0 {
			report(root.elems[i], root.keyAt[i], fmt.Sprintf("%q is a package of the policy", k), "rename the data")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.shapes)) {
		n, at := root, ""
		if name != wholeData {
			n, at = root.get(name), "/"+name
		}
		if n == nil {
			continue
		}
		for _, c := range p.shapes[name].validate(n, at) {
			line, col := lineCol(p.src.data[c.file], c.at)
			file := ""
			if c.file != "" {
				file = dataName(c.file)
			}
			f.add(file, line, col, "data"+c.path+": "+c.what, c.fix)
		}
	}
}

// newDataset prepares the data for evaluations.
func newDataset(root *jsonNode, src *Source, f *faults) *dataset {
	d := &dataset{tree: root, classes: map[string]int{}}
	d.readClasses(src, f)
	o, _ := root.term().Value.(ast.Object)
	d.store = inmem.NewFromASTObject(o)
	return d
}

// readClasses reads the priorities of data.classes.
func (d *dataset) readClasses(src *Source, f *faults) {
	classes := d.tree.get("classes")
	if classes == nil {
		return
	}
	for i, name := range classes.keys {
		p := classes.elems[i].get("priority")
		if p == nil {
			d.classes[name] = 0
			continue
		}
		v, ok := rat(p)
		if !ok || !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() < math.MinInt16 || v.Num().Int64() > math.MaxInt16 {
			line, col := lineCol(src.data[p.file], p.at)
			f.add(dataName(p.file), line, col, fmt.Sprintf("invalid priority of class %q", name),
				"want a whole number from -32768 to 32767")
			continue
		}
		d.classes[name] = int(v.Num().Int64())
	}
}
