// Package metric declares the metrics that Kvasir exports, each in one row: its
// name, kind, unit, labels and help text. Package telemetry exports them, the
// packages that count read the rows, and METRICS.md is generated from them. A
// metric that has no row cannot be exported.
package metric

// Kind is the kind of a metric.
type Kind uint8

// Kinds of metrics. The zero Kind is none of them.
const (
	Counter   Kind = iota + 1 // only rises, except at a restart
	Gauge                     // rises and falls
	Histogram                 // a distribution
)

// String returns the kind as Prometheus names it.
func (k Kind) String() string {
	return [...]string{"unset", "counter", "gauge", "histogram"}[k]
}

// Unit is the unit of a metric's value.
type Unit string

// Units of values that are not counts of things.
const (
	Flag    Unit = "flag"  // 1 or 0
	Ratio   Unit = "ratio" // a share or another number without a unit
	Number  Unit = "number"
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
)

// Desc is the declaration of one metric. It is immutable; only this package makes
// them.
type Desc struct {
	name, help string
	kind       Kind
	unit       Unit
	labels     []string
	group      *group
}

// Name returns the metric's name. That of a counter ends in _total.
func (d *Desc) Name() string { return d.name }

// Help returns a sentence about the metric.
func (d *Desc) Help() string { return d.help }

// Kind returns the metric's kind.
func (d *Desc) Kind() Kind { return d.kind }

// Unit returns the unit of the metric's value.
func (d *Desc) Unit() Unit { return d.unit }

// Labels returns the names of the metric's labels, in the order in which their
// values are given. It must not be changed.
func (d *Desc) Labels() []string { return d.labels }

// All returns all declarations, group by group, in the order of their rows. It
// must not be changed.
func All() []*Desc { return all }

// all is appended to by the rows.
var all []*Desc

// group is a section of METRICS.md.
type group struct{ title, about string }

// newGroup declares a section; its metrics follow.
func newGroup(title, about string) *group { return &group{title, about} }

func (g *group) counter(name string, unit Unit, help string, labels ...string) *Desc {
	return g.add(Counter, name, unit, help, labels)
}

func (g *group) gauge(name string, unit Unit, help string, labels ...string) *Desc {
	return g.add(Gauge, name, unit, help, labels)
}

func (g *group) histogram(name string, unit Unit, help string, labels ...string) *Desc {
	return g.add(Histogram, name, unit, help, labels)
}

func (g *group) add(kind Kind, name string, unit Unit, help string, labels []string) *Desc {
	d := &Desc{name: name, help: help, kind: kind, unit: unit, labels: labels, group: g}
	all = append(all, d)
	return d
}
