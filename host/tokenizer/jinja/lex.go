package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokName
	tokInt
	tokFloat
	tokString
	tokOp
	tokText
	tokBlockBegin
	tokBlockEnd
	tokVarBegin
	tokVarEnd
)

type token struct {
	kind tokenKind
	s    string
	pos  int
}

// lexer splits a template into tokens with trim_blocks and lstrip_blocks on.
type lexer struct {
	src       string
	pos       int
	toks      []token
	lineStart bool // the line holds only tags that ended their line before pos
}

func syntax(pos int, fact string) { throw(&SyntaxError{Offset: pos, Fact: fact}) }

// lex splits src. Like Jinja2 it treats \r\n and \r as \n and drops one line end
// at the end.
func lex(src string) []token {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	x := &lexer{src: strings.TrimSuffix(src, "\n"), lineStart: true}
	for x.pos < len(x.src) {
		x.text()
	}
	x.emit(tokEnd, "", len(x.src))
	return x.toks
}

func (x *lexer) emit(k tokenKind, s string, pos int) {
	x.toks = append(x.toks, token{k, s, pos})
}

// nextTag returns the position of the next {{, {% or {#, or the end.
func (x *lexer) nextTag() int {
	for j := x.pos; ; j++ {
		k := strings.IndexByte(x.src[j:], '{')
		if k < 0 || j+k+1 >= len(x.src) {
			return len(x.src)
		}
		j += k
		if c := x.src[j+1]; c == '{' || c == '%' || c == '#' {
			return j
		}
	}
}

// text consumes the text up to the next tag and then that tag.
func (x *lexer) text() {
	start, at := x.pos, x.nextTag()
	text := x.src[start:at]
	if at == len(x.src) {
		x.emit(tokText, text, start)
		x.pos = at
		return
	}
	kind := x.src[at+1]
	x.pos = at + 2
	text = x.stripBefore(text, kind)
	if text != "" {
		x.emit(tokText, text, start)
	}
	switch {
	case kind == '#':
		x.comment(at)
	case kind == '%' && x.raw(at):
	default:
		x.tag(kind, at)
	}
}

// stripBefore strips the text before a tag as its sign or lstrip_blocks requires.
func (x *lexer) stripBefore(text string, kind byte) string {
	if x.pos < len(x.src) && x.src[x.pos] == '-' {
		x.pos++
		return strings.TrimRightFunc(text, IsSpace)
	}
	if x.pos < len(x.src) && x.src[x.pos] == '+' {
		x.pos++
		return text
	}
	if kind == '{' {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || x.lineStart) && strings.TrimFunc(text[line:], IsSpace) == "" {
		return text[:line]
	}
	return text
}

// after strips the text after a tag.
func (x *lexer) after(kind byte, minus, plus bool) {
	x.lineStart = false
	if minus {
		for x.pos < len(x.src) && isBlank(x.src[x.pos]) {
			x.lineStart = x.src[x.pos] == '\n'
			x.pos++
		}
	} else if !plus && kind != '{' && x.pos < len(x.src) && x.src[x.pos] == '\n' {
		x.pos++
		x.lineStart = true
	}
}

func (x *lexer) comment(at int) {
	e := strings.Index(x.src[x.pos:], "#}")
	if e < 0 {
		syntax(at, "comment without end")
	}
	minus := e > 0 && x.src[x.pos+e-1] == '-'
	plus := e > 0 && x.src[x.pos+e-1] == '+'
	x.pos += e + 2
	x.after('#', minus, plus)
}

// raw rejects a raw block, which no known chat template has.
func (x *lexer) raw(at int) bool {
	rest := strings.TrimLeftFunc(x.src[x.pos:], IsSpace)
	if !strings.HasPrefix(rest, "raw") {
		return false
	}
	rest = strings.TrimLeftFunc(rest[3:], IsSpace)
	if strings.HasPrefix(strings.TrimLeft(rest, "-+"), "%}") {
		unsupported("tag %q", "raw")
	}
	return false
}

// tag consumes the tokens of a {{ }} or {% %}.
func (x *lexer) tag(kind byte, at int) {
	begin, end, closing := tokBlockBegin, tokBlockEnd, "%}"
	if kind == '{' {
		begin, end, closing = tokVarBegin, tokVarEnd, "}}"
	}
	x.emit(begin, "", at)
	for depth := 0; ; {
		for x.pos < len(x.src) && isBlank(x.src[x.pos]) {
			x.pos++
		}
		if x.pos >= len(x.src) {
			syntax(at, "tag without end")
		}
		rest := x.src[x.pos:]
		if depth == 0 && strings.HasPrefix(rest, closing) {
			x.emit(end, "", x.pos)
			x.pos += 2
			x.after(kind, false, false)
			return
		}
		if depth == 0 && (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], closing) {
			x.emit(end, "", x.pos)
			x.pos += 3
			x.after(kind, rest[0] == '-', rest[0] == '+')
			return
		}
		depth += x.token()
	}
}

// token consumes one token inside a tag and returns the change in the depth of
// brackets.
func (x *lexer) token() int {
	c, start := x.src[x.pos], x.pos
	r, _ := utf8.DecodeRuneInString(x.src[x.pos:])
	switch {
	case c == '_' || unicode.IsLetter(r):
		x.word()
		x.emit(tokName, x.src[start:x.pos], start)
		return 0
	case c >= '0' && c <= '9':
		x.number()
		return 0
	case c == '\'' || c == '"':
		for x.pos++; x.pos < len(x.src) && x.src[x.pos] != c; x.pos++ {
			if x.src[x.pos] == '\\' {
				x.pos++
			}
		}
		if x.pos >= len(x.src) {
			syntax(start, "string without end")
		}
		x.emit(tokString, unescape(x.src[start+1:x.pos], start), start)
		x.pos++
		return 0
	}
	return x.operator()
}

func (x *lexer) word() {
	for x.pos < len(x.src) {
		r, w := utf8.DecodeRuneInString(x.src[x.pos:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return
		}
		x.pos += w
	}
}

func (x *lexer) digits(underscores bool) {
	for x.pos < len(x.src) && (x.src[x.pos] >= '0' && x.src[x.pos] <= '9' || underscores && x.src[x.pos] == '_') {
		x.pos++
	}
}

// number consumes a decimal integer or float. It rejects other forms.
func (x *lexer) number() {
	start, kind := x.pos, tokInt
	x.digits(true)
	if x.pos+1 < len(x.src) && x.src[x.pos] == '.' && x.src[x.pos+1] >= '0' && x.src[x.pos+1] <= '9' {
		kind = tokFloat
		x.pos++
		x.digits(true)
	}
	if x.pos < len(x.src) && (x.src[x.pos] == 'e' || x.src[x.pos] == 'E') {
		kind = tokFloat
		x.pos++
		if x.pos < len(x.src) && (x.src[x.pos] == '-' || x.src[x.pos] == '+') {
			x.pos++
		}
		x.digits(true)
	}
	if x.pos < len(x.src) && (x.src[x.pos] == '_' || x.src[x.pos] >= 'A' && x.src[x.pos] <= 'Z' ||
		x.src[x.pos] >= 'a' && x.src[x.pos] <= 'z') {
		unsupported("the number at offset %d", start)
	}
	x.emit(kind, strings.ReplaceAll(x.src[start:x.pos], "_", ""), start)
}

func (x *lexer) operator() int {
	start := x.pos
	op := x.src[start : start+1]
	if start+1 < len(x.src) {
		switch two := x.src[start : start+2]; two {
		case "==", "!=", "<=", ">=", "//", "**":
			op = two
		}
	}
	if !strings.Contains("()[]{}.,:|~+-*/%=<>!", op[:1]) {
		syntax(start, "unexpected character")
	}
	x.pos += len(op)
	x.emit(tokOp, op, start)
	switch op {
	case "(", "[", "{":
		return 1
	case ")", "]", "}":
		return -1
	}
	return 0
}

// isBlank reports whether c is white space in a template's syntax.
func isBlank(c byte) bool { return c == ' ' || c >= 9 && c <= 13 }

// IsSpace implements Python's str.isspace for one character.
func IsSpace(r rune) bool {
	switch {
	case r >= 9 && r <= 13, r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680, r >= 0x2000 && r <= 0x200a,
		r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}
