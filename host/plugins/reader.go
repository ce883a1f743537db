package plugins

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/discovery"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// figureReader is a plugin as the parser of engines' scrapes. As a sizer it looks
// the version in force up at each call.
type figureReader struct {
	m    *Manager
	name string
}

// Parser returns the plugin of a name as a parser of engines' scrapes.
func (m *Manager) Parser(name string) backend.Parser { return figureReader{m, name} }

// Parse implements backend.Parser.
func (r figureReader) Parse(text []byte) (out []dialect.Figure, err error) {
	set, _, release := r.m.rules.Current()
	defer release()
	p, err := set.experimental(r.name, wasm.BackendParse)
	if err != nil {
		return nil, err
	}
	figures, err := p.BackendParse(text, float64(r.m.now().UnixMilli()))
	switch {
	case errors.Is(err, wasm.ErrAbstain):
		return nil, backend.ErrNoFigures
	case err != nil:
		return nil, p.why(err)
	}
	for _, f := range figures {
		out = append(out, dialect.Figure{ID: dialect.FigureID(f.ID), Value: f.Value})
	}
	return out, nil
}

// EndpointReader returns the plugin of a name as the reader of documents that list
// endpoints, looked up at each call.
func (m *Manager) EndpointReader(name string) func(doc []byte) ([]string, error) {
	return func(doc []byte) ([]string, error) {
		set, _, release := m.rules.Current()
		defer release()
		p, err := set.experimental(name, wasm.Discover)
		if err != nil {
			return nil, err
		}
		text, err := p.Discover(doc, float64(m.now().UnixMilli()))
		if err != nil {
			return nil, p.why(err)
		}
		return discovery.Lines(text)
	}
}
