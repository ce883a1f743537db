package scheduler

import "testing"

// TestTables: each value of an enumeration has its row.
func TestTables(t *testing.T) {
	seen := map[string]reason{}
	for r := range numReasons {
		row := reasons[r]
		if r != reasonNone && row.text == "" || row.refusal == "" {
			t.Errorf("reason %d has no text: %+v", r, row)
		}
		if other, ok := seen[row.text]; ok {
			t.Errorf("reasons %d and %d have the text %q", other, r, row.text)
		}
		seen[row.text] = r
	}
	distinct := func(what string, n int, name func(i int) string) {
		seen := map[string]bool{}
		for i := range n {
			if s := name(i); s == "" || seen[s] {
				t.Errorf("%s %d: name %q is empty or a duplicate", what, i, s)
			} else {
				seen[s] = true
			}
		}
	}
	distinct("kind", int(numKinds), func(i int) string { return Kind(i).String() })
	distinct("arm", int(numArms), func(i int) string { return arm(i).String() })
	distinct("candidate state", int(numCandStates), func(i int) string { return candState(i).String() })
	distinct("knowledge", int(numKnowledge), func(i int) string { return knowledge(i).String() })
	distinct("phase", int(numPhases), func(i int) string { return phase(i).String() })
	distinct("stage", int(stages), func(i int) string { return StageNames[i] })
	distinct("unsalted reason", int(unsaltedReasons), func(i int) string { return unsaltedNames[i] })
	if k := Kind(200); k.String() != KindUnset.String() || KindUnset != 0 {
		t.Error("what is no kind has the name of one")
	}
}
