package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one error in a policy that keeps it from being loaded.
type Fault struct {
	File string `json:"file,omitempty"` // relative to the policy or the data directory; "" = the policy as a whole
	Line int    `json:"line,omitempty"` // from 1; 0 = the file as a whole
	Col  int    `json:"column,omitempty"`
	What string `json:"what"`
	Fix  string `json:"fix"` // what to write instead
}

// String returns file:line:col: what: fix.
func (f Fault) String() string {
	s := f.File
	if f.Line > 0 {
		s = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Col)
	}
	if s != "" {
		s += ": "
	}
	s += f.What
	if f.Fix != "" {
		s += ": " + f.Fix
	}
	return s
}

// Faults is every error of one policy, in the order of files and lines. Load
// returns it for a policy that could be read but is invalid.
type Faults []Fault

// Error returns one line for each error.
func (f Faults) Error() string {
	s := make([]string, len(f))
	for i := range f {
		s[i] = f[i].String()
	}
	return strings.Join(s, "\n")
}

// maxFaults bounds the list of errors of one policy.
const maxFaults = 50

// faults collects errors. It is not safe for concurrent use.
type faults struct{ all Faults }

func (f *faults) add(file string, line, col int, what, fix string) {
	if len(f.all) < maxFaults {
		f.all = append(f.all, Fault{file, line, col, what, fix})
	}
}

// err returns what was collected, without duplicates, nil if there is none.
func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortStableFunc(f.all, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.What, b.What))
	})
	return slices.Compact(f.all)
}
