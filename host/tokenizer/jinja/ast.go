package jinja

// operation is the kind of a node of the syntax tree.
type operation uint8

const (
	opLiteral operation = iota // v
	opName                     // s
	opParen                    // a[0]: a + in parentheses, which is not merged with the surrounding +
	opList                     // a...
	opTuple                    // a...
	opDict                     // a: key, value, ...
	opOr                       // a[0], a[1]
	opAnd                      // a[0], a[1]
	opNot                      // a[0]
	opNeg                      // a[0]
	opCond                     // a: condition, then, else or nil
	opCompare                  // a: operands; cmps between them
	opAdd                      // a...
	opConcat                   // a...
	opSub                      // a[0], a[1], and the rest up to opPow
	opMul
	opDiv
	opFloorDiv
	opMod
	opPow
	opAttr   // a[0].s
	opItem   // a[0][a[1]]
	opSlice  // a: object, start, stop, step, each or nil
	opCall   // a[0](a[1:], kw)
	opFilter // a[0] | s(a[1:], kw)
	opTest   // a[0] is s(a[1:]); flag: is not
	opKeyword

	opText // s
	opOutput
	opScope
	opIf          // a: conditions; body: opBlock of each; els
	opBlock       // body
	opFor         // names in a[0], filtered by a[1] or nil: body, els
	opSet         // names (or s.names[0]) = a[0]; flag: unpack
	opSetBlock    // names[0] (or s.names[0]) = body, through the filters a[0] or nil
	opFilterBlock // body through a[0]
	opMacro       // s(names = kw): body
	opCallBlock   // a[0] with a caller of names = kw: body
	opBreak
	opContinue
)

var operatorText = map[operation]string{opAdd: "+", opSub: "-", opMul: "*", opDiv: "/", opFloorDiv: "//", opMod: "%",
	opPow: "**"}

func (op operation) String() string { return operatorText[op] }

// node is a node of the syntax tree; its operation determines which fields are set.
type node struct {
	op    operation
	s     string
	v     Value
	a     []*node
	kw    []*node // opKeyword with s and a[0] for calls; defaults or nil for macros
	body  []*node
	els   []*node
	names []string // targets of an assignment, parameters
	cmps  []comparison
	flag  bool
}

func literal(v Value) *node { return &node{op: opLiteral, v: v} }

// walk calls f for n and all nodes under it.
func (n *node) walk(f func(*node)) {
	if n == nil {
		return
	}
	f(n)
	for _, l := range [...][]*node{n.a, n.kw, n.body, n.els} {
		for _, x := range l {
			x.walk(f)
		}
	}
}
