package wasm

import (
	"fmt"

	"github.com/kvasir-router/kvasir/abi"
)

// Figure is one figure of an engine that a plugin reported.
type Figure struct {
	ID    uint32  // abi.Figure…; hosts ignore unknown figures
	Value float64 // finite, 0 or more, below 1e18
}

// BackendParse has the plugin parse a scrape of at most abi.MaxDocument bytes. Figures
// are unique. Call it off the request path. Errors: as Autoscale.
func (p *Plugin) BackendParse(text []byte, nowMS float64) ([]Figure, error) {
	if err := p.fits(BackendParse, text); err != nil {
		return nil, err
	}
	var out []Figure
	err := p.experiment(BackendParse, func(in *instance) error {
		b, n, err := p.document(in, BackendParse, text, nowMS, abi.MaxFigures*abi.FigureHeaderSize, abi.FigureHeaderSize)
		if err == nil {
			out, err = readFigures(b, n, p.name)
		}
		return err
	})
	return out, err
}

// Discover has the plugin parse a document that lists endpoints and returns the
// resulting text. Limits and errors: as BackendParse.
func (p *Plugin) Discover(doc []byte, nowMS float64) (string, error) {
	if err := p.fits(Discover, doc); err != nil {
		return "", err
	}
	var out string
	err := p.experiment(Discover, func(in *instance) error {
		b, n, err := p.document(in, Discover, doc, nowMS, abi.MaxDiscovered, 1)
		if err == nil {
			out = string(b[:n])
		}
		return err
	})
	return out, err
}

// fits rejects a document that is too long, which is not the guest's fault.
func (p *Plugin) fits(r Role, doc []byte) error {
	if len(doc) > abi.MaxDocument {
		return &Fault{Plugin: p.name, Role: r.String(), Reason: ReasonTooMany,
			Detail: fmt.Sprintf("a document of %d bytes, at most %d", len(doc), abi.MaxDocument)}
	}
	return nil
}

// document calls a role that parses a document. It returns the result after its header
// and the number of rows of unit bytes in it, which is checked.
func (p *Plugin) document(in *instance, r Role, doc []byte, nowMS float64, room, unit uint32) ([]byte, uint32, error) {
	data := alignUp(abi.DocumentHeaderSize)
	out := data + alignUp(uint32(len(doc)))
	total := out + abi.DocumentOutHeaderSize + room
	in.setClock(nowMS, 0)
	if err := in.ensure(total, startSliced); err != nil {
		return nil, 0, err
	}
	m := in.view(total)
	clear(m[:data])
	clear(m[data+uint32(copy(m[data:], doc)) : out+abi.DocumentOutHeaderSize])
	h := rows(m)
	h.u32(abi.DocumentSize, abi.DocumentHeaderSize)
	h.f64(abi.DocumentNowMs, nowMS)
	h.u32(abi.DocumentDataOff, data)
	h.u32(abi.DocumentDataLen, uint32(len(doc)))
	h.u32(abi.DocumentOutOff, out)
	h.u32(abi.DocumentOutBytes, room)
	rows(m[out:]).u32(abi.DocumentOutCount, abi.Unwritten)
	fill(words(m[out+abi.DocumentOutHeaderSize:]), abi.Unwritten)
	if err := in.run(r, coldBudget); err != nil {
		return nil, 0, err
	}
	n := rows(m[out:]).getU32(abi.DocumentOutCount)
	switch {
	case n == abi.Unwritten:
		return nil, 0, &Fault{Plugin: p.name, Reason: ReasonUnwritten, Detail: "the result was not written"}
	case n > room/unit:
		return nil, 0, &Fault{Plugin: p.name, Reason: ReasonIndex,
			Detail: fmt.Sprintf("a result of %d, at most %d", n, room/unit)}
	}
	return m[out+abi.DocumentOutHeaderSize:], n, nil
}

// readFigures checks n rows.
func readFigures(b []byte, n uint32, plugin string) ([]Figure, error) {
	var out []Figure
	seen := map[uint32]bool{}
	for i := range n {
		r := rows(b[i*abi.FigureHeaderSize:])
		f := Figure{ID: r.getU32(abi.FigureID), Value: r.getF64(abi.FigureValue)}
		switch {
		case f.ID == abi.Unwritten:
			return nil, &Fault{Plugin: plugin, Reason: ReasonUnwritten,
				Detail: fmt.Sprintf("figure %d of %d was not written", i, n)}
		case seen[f.ID]:
			return nil, &Fault{Plugin: plugin, Reason: ReasonIndex, Detail: fmt.Sprintf("duplicate figure %d", f.ID)}
		case !(f.Value >= 0 && f.Value < 1e18):
			return nil, &Fault{Plugin: plugin, Reason: ReasonNotFinite, Detail: fmt.Sprintf("figure %d is %v", f.ID, f.Value)}
		}
		seen[f.ID] = true
		out = append(out, f)
	}
	return out, nil
}
