package host

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/discovery"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// figureReader is a plugin as the parser of engines' scrapes. As a sizer it looks
// the version in force up at each call.
type figureReader struct {
	h    *Host
	name string
}

// Parse implements backend.Parser.
func (r figureReader) Parse(text []byte) (out []backend.Figure, err error) {
	l := r.h.rules.Acquire()
	defer l.Release()
	p, err := l.Value().special(r.name, wasm.BackendParse)
	if err != nil {
		return nil, err
	}
	figures, err := p.BackendParse(text, float64(r.h.now().UnixMilli()))
	switch {
	case errors.Is(err, wasm.ErrAbstain):
		return nil, backend.ErrNoFigures
	case err != nil:
		return nil, p.why(err)
	}
	for _, f := range figures {
		out = append(out, backend.Figure{ID: backend.FigureID(f.ID), Value: f.Value})
	}
	return out, nil
}

// endpointReader is a plugin as the reader of documents that list endpoints.
type endpointReader struct {
	h    *Host
	name string
}

func (r endpointReader) read(doc []byte) ([]string, error) {
	l := r.h.rules.Acquire()
	defer l.Release()
	p, err := l.Value().special(r.name, wasm.Discover)
	if err != nil {
		return nil, err
	}
	text, err := p.Discover(doc, float64(r.h.now().UnixMilli()))
	if err != nil {
		return nil, p.why(err)
	}
	return discovery.Lines(text)
}
