package kvasir

import "unsafe"

// document is the argument of the roles that read one, as the host laid it out.
type document struct {
	size, flags                        uint32
	nowMS                              float64
	dataOff, dataLen, outOff, outBytes uint32
}

var (
	_ = [1]struct{}{}[unsafe.Sizeof(document{})-DocumentHeaderSize]
	_ = [1]struct{}{}[unsafe.Offsetof(document{}.outOff)-DocumentOutOff]
	_ = [1]struct{}{}[unsafe.Sizeof(figure{})-FigureHeaderSize]
)

func (d *document) at(off uint32) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(d), off) }

func (d *document) text() []byte { return unsafe.Slice((*byte)(d.at(d.dataOff)), d.dataLen) }

// count is how many rows or bytes are written.
func (d *document) count() *uint32 { return (*uint32)(d.at(d.outOff)) }

func (d *document) out() unsafe.Pointer { return d.at(d.outOff + DocumentOutHeaderSize) }

type figure struct {
	id, _ uint32
	value float64
}

// Figures is what a parser reports of an engine.
type Figures struct{ d *document }

// Add adds a figure, FigureRunning and so on, each at most once; one that does not
// fit is left out. Values are finite and at least 0.
func (f Figures) Add(id int, value float64) {
	n := f.d.count()
	if (*n+1)*FigureHeaderSize <= f.d.outBytes {
		*(*figure)(unsafe.Add(f.d.out(), *n*FigureHeaderSize)) = figure{id: uint32(id), value: value}
		*n++
	}
}

// BackendParse registers what reads an engine's answer to a scrape, which is valid
// during the call. The role is experimental. ErrAbstain: nothing is known this time.
func BackendParse(plugin string, f func(text []byte, figures Figures) error) {
	register(roleBackendParse, plugin, nil, func(b *Batch) error {
		d := (*document)(unsafe.Pointer(b))
		*d.count() = 0
		return f(d.text(), Figures{d})
	}, nil)
}

// Discover registers what reads a document that lists endpoints, and returns them one
// per line, as http://host:port or host:port. The role is experimental.
func Discover(plugin string, f func(doc []byte) (lines string, err error)) {
	register(roleDiscover, plugin, nil, func(b *Batch) error {
		d := (*document)(unsafe.Pointer(b))
		lines, err := f(d.text())
		if err == nil {
			*d.count() = uint32(copy(unsafe.Slice((*byte)(d.out()), d.outBytes), lines))
		}
		return err
	}, nil)
}
