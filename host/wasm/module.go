package wasm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/leb"
)

// Section ids of the binary format.
const (
	secCustom = 0
	secType   = 1
	secImport = 2
	secFunc   = 3
	secTable  = 4
	secMemory = 5
	secGlobal = 6
	secExport = 7
	secStart  = 8
	secCode   = 10
	secCount  = 12 // data count, comes before code
)

// Kinds of imports and exports.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
)

// Value types.
const (
	typeI32 = 0x7f
	typeI64 = 0x7e
	typeF32 = 0x7d
	typeF64 = 0x7c
)

// reservedPrefix begins the names the rewriter exports.
const reservedPrefix = "__kvasir_"

// Static limits. Functions: Go's standard library compiles to 6,000. Tables:
// one entry per function whose address is taken.
const (
	maxModuleBytes = 8 << 20
	maxFunctions   = 20_000
	maxTypes       = 10_000
	maxTable       = 65_536
	maxLocals      = 50_000
	maxExports     = 1_000
	maxImports     = 256
	maxGlobals     = 10_000
)

type section struct {
	id   byte
	body []byte // without id and length
}

type funcType struct{ params, results []byte }

func (t funcType) String() string {
	return "(" + valNames(t.params) + ") -> (" + valNames(t.results) + ")"
}

func valNames(v []byte) string {
	names := map[byte]string{typeI32: "i32", typeI64: "i64", typeF32: "f32", typeF64: "f64"}
	out := make([]string, len(v))
	for i, t := range v {
		if out[i] = names[t]; out[i] == "" {
			out[i] = fmt.Sprintf("%#x", t)
		}
	}
	return strings.Join(out, " ")
}

// importFunc is an imported function; nothing else may be imported.
type importFunc struct {
	module, name string
	typ          funcType
}

// module is the part of a binary module that the host needs to check and rewrite it.
// Code is not parsed before rewriting.
type module struct {
	sections []section
	types    []funcType
	imports  []importFunc
	funcs    []uint32 // [defined functions] type
	globals  uint32
	memory   bool
	exports  map[string]export
}

type export struct {
	kind  byte
	index uint32
}

// parseModule reads the frame of a binary module and refuses what the ABI
// does not allow.
func parseModule(b []byte) (*module, error) {
	if len(b) > maxModuleBytes {
		return nil, fmt.Errorf("module of %d bytes, at most %d", len(b), maxModuleBytes)
	}
	if len(b) < 8 || string(b[:4]) != "\x00asm" {
		return nil, errors.New("not a WebAssembly module")
	}
	if string(b[4:8]) != "\x01\x00\x00\x00" {
		return nil, errors.New("not a core module of version 1 (a component?)")
	}
	m := &module{exports: map[string]export{}}
	r := &reader{leb.Reader{Bytes: b, At: 8}}
	last := 0
	for r.More() {
		s := section{id: r.Byte()}
		s.body = r.Take(r.U32())
		if r.Err != nil {
			break
		}
		if s.id > secCount {
			return nil, fmt.Errorf("section %d is not in the feature set", s.id)
		}
		if s.id != secCustom {
			if sectionRank(s.id) <= last {
				return nil, fmt.Errorf("section %d is out of order", s.id)
			}
			last = sectionRank(s.id)
		}
		if err := m.section(s); err != nil {
			return nil, fmt.Errorf("section %d: %w", s.id, err)
		}
		m.sections = append(m.sections, s)
	}
	return m, r.Err
}

// sectionRank is the order of sections: data count comes before code.
func sectionRank(id byte) int {
	if id == secCount {
		return secCode*10 - 5
	}
	return int(id) * 10
}

func (m *module) section(s section) error {
	r := &reader{leb.Reader{Bytes: s.body}}
	var err error
	switch s.id {
	case secType:
		err = m.readTypes(r)
	case secImport:
		err = m.readImports(r)
	case secFunc:
		n := r.Count()
		if n > maxFunctions {
			return fmt.Errorf("%d functions, at most %d", n, maxFunctions)
		}
		for ; n > 0 && r.Err == nil; n-- {
			t := r.U32()
			if int64(t) >= int64(len(m.types)) {
				return fmt.Errorf("type %d of %d", t, len(m.types))
			}
			m.funcs = append(m.funcs, t)
		}
	case secMemory:
		if n := r.Count(); n != 1 {
			return fmt.Errorf("%d memories, want 1", n)
		}
		m.memory = true
		return r.Err
	case secGlobal:
		if m.globals = r.Count(); m.globals > maxGlobals {
			return fmt.Errorf("%d globals, at most %d", m.globals, maxGlobals)
		}
		return r.Err
	case secExport:
		err = m.readExports(r)
	default:
		return nil
	}
	if err == nil {
		err = r.Err
	}
	if err == nil && r.At != len(r.Bytes) {
		err = errors.New("trailing bytes")
	}
	return err
}

func (m *module) readTypes(r *reader) error {
	n := r.Count()
	if n > maxTypes {
		return fmt.Errorf("%d types, at most %d", n, maxTypes)
	}
	for ; n > 0 && r.Err == nil; n-- {
		if f := r.Byte(); f != 0x60 && r.Err == nil {
			return fmt.Errorf("type form %#x is not in the feature set", f)
		}
		m.types = append(m.types, funcType{params: r.Take(r.U32()), results: r.Take(r.U32())})
	}
	return nil
}

func (m *module) readImports(r *reader) error {
	n := r.Count()
	if n > maxImports {
		return fmt.Errorf("%d imports, at most %d", n, maxImports)
	}
	for ; n > 0 && r.Err == nil; n-- {
		mod, name := r.Name(), r.Name()
		if k := r.Byte(); k != kindFunc && r.Err == nil {
			return fmt.Errorf("import %s.%s is not a function", mod, name)
		}
		t := r.U32()
		if r.Err == nil && int64(t) >= int64(len(m.types)) {
			return fmt.Errorf("import %s.%s: type %d of %d", mod, name, t, len(m.types))
		}
		if r.Err == nil {
			m.imports = append(m.imports, importFunc{mod, name, m.types[t]})
		}
	}
	return nil
}

func (m *module) readExports(r *reader) error {
	n := r.Count()
	if n > maxExports {
		return fmt.Errorf("%d exports, at most %d", n, maxExports)
	}
	for ; n > 0 && r.Err == nil; n-- {
		name := r.Name()
		e := export{r.Byte(), r.U32()}
		if strings.HasPrefix(name, reservedPrefix) {
			return fmt.Errorf("export %q: names beginning with %q belong to the host", name, reservedPrefix)
		}
		if _, twice := m.exports[name]; twice {
			return fmt.Errorf("duplicate export %q", name)
		}
		m.exports[name] = e
	}
	return nil
}

// exported returns the type of the exported function name.
func (m *module) exported(name string) (t funcType, ok bool) {
	e, ok := m.exports[name]
	if !ok || e.kind != kindFunc {
		return funcType{}, false
	}
	if int64(e.index) < int64(len(m.imports)) {
		return m.imports[e.index].typ, true
	}
	i := int64(e.index) - int64(len(m.imports))
	if i >= int64(len(m.funcs)) {
		return funcType{}, false
	}
	return m.types[m.funcs[i]], true
}
