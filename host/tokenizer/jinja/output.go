package jinja

// Piece is a part of a rendered prompt: the span [Off, Off+N) of Text.S or, if
// Text is nil, of Output.Buf.
type Piece struct {
	Text   *Text
	Off, N int
}

// Output is a rendered prompt. Literals and short strings are copied into Buf;
// long strings remain spans of their texts.
type Output struct {
	Buf    []byte
	Pieces []Piece
	N      int // total bytes
}

// Reset empties o and keeps its memory.
func (o *Output) Reset() { o.Buf, o.Pieces, o.N = o.Buf[:0], o.Pieces[:0], 0 }

// Append appends the prompt's text to dst.
func (o *Output) Append(dst []byte) []byte {
	for _, p := range o.Pieces {
		if p.Text != nil {
			dst = append(dst, p.Text.S[p.Off:p.Off+p.N]...)
		} else {
			dst = append(dst, o.Buf[p.Off:p.Off+p.N]...)
		}
	}
	return dst
}

// literal appends a short string. Adjacent literals become one piece.
func (o *Output) literal(r *run, s string) {
	if s == "" {
		return
	}
	r.charge(len(s))
	o.N += len(s)
	n := len(o.Buf)
	o.Buf = append(o.Buf, s...)
	if k := len(o.Pieces); k > 0 && o.Pieces[k-1].Text == nil {
		o.Pieces[k-1].N += len(s)
		return
	}
	o.Pieces = append(o.Pieces, Piece{nil, n, len(s)})
}

// write appends the printed form of v.
func (o *Output) write(r *run, v Value) {
	switch v.k {
	case kindString:
		if t := v.text(); t != nil && len(v.s) >= SpanMin {
			r.charge(valueBytes)
			o.Pieces = append(o.Pieces, Piece{t, int(v.n), len(v.s)})
			o.N += len(v.s)
			return
		}
		o.literal(r, v.s)
	case kindRope:
		for _, p := range v.p.(*rope).parts {
			o.write(r, p)
		}
	case kindUndefined:
	default:
		o.literal(r, r.str(v))
	}
}

// value returns the written text as a string value.
func (o *Output) value(r *run) Value {
	if len(o.Pieces) == 0 {
		return Str("")
	}
	r.charge(len(o.Buf))
	buf := string(o.Buf)
	if len(o.Pieces) == 1 && o.Pieces[0].Text == nil {
		return Str(buf)
	}
	r.chargeValues(len(o.Pieces))
	parts := make([]Value, len(o.Pieces))
	for i, p := range o.Pieces {
		if p.Text != nil {
			parts[i] = Value{k: kindString, n: int64(p.Off), s: p.Text.S[p.Off : p.Off+p.N], p: p.Text}
		} else {
			parts[i] = Str(buf[p.Off : p.Off+p.N])
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return Value{k: kindRope, p: &rope{parts: parts, n: o.N}}
}
