package main

import (
	"bytes"
	"fmt"
)

// fillTables replaces the text between "<!-- gen:NAME -->" and
// "<!-- gen:end -->" by the table NAME.
func fillTables(spec []byte) ([]byte, error) {
	const end = "<!-- gen:end -->"
	var out bytes.Buffer
	for {
		open := bytes.Index(spec, []byte("<!-- gen:"))
		if open < 0 {
			out.Write(spec)
			return out.Bytes(), nil
		}
		rest := spec[open+len("<!-- gen:"):]
		stop := bytes.Index(rest, []byte(" -->"))
		last := bytes.Index(rest, []byte(end))
		if stop < 0 || last < stop {
			return nil, fmt.Errorf("SPEC.md: table without an end at byte %d", out.Len()+open)
		}
		name := string(rest[:stop])
		t, ok := table(name)
		if !ok {
			return nil, fmt.Errorf("SPEC.md: unknown table %q", name)
		}
		out.Write(spec[:open])
		fmt.Fprintf(&out, "<!-- gen:%s -->\n%s%s", name, t, end)
		spec = rest[last+len(end):]
	}
}

func table(name string) (string, bool) {
	var b bytes.Buffer
	switch name {
	case "constants":
		for _, g := range groups {
			fmt.Fprintf(&b, "\n%s\n\n| name | value | |\n|---|---|---|\n", g.doc)
			for _, c := range g.consts {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.name, number(c.value), c.doc)
			}
		}
		b.WriteString("\n")
	case "exports":
		texts(&b, exports)
	case "modules":
		texts(&b, modules)
	case "candidate":
		columnTable(&b, candidateColumns)
	case "request":
		columnTable(&b, requestColumns)
	case "outcome":
		columnTable(&b, outcomeColumns)
	default:
		return "", false
	}
	return b.String(), true
}

func texts(b *bytes.Buffer, ts []text) {
	b.WriteString("\n| name | |\n|---|---|\n")
	for _, t := range ts {
		fmt.Fprintf(b, "| `%s` | %s |\n", t.value, t.doc)
	}
	b.WriteString("\n")
}

func columnTable(b *bytes.Buffer, cols []column) {
	b.WriteString("\n| name | type | unit | default | meaning |\n|---|---|---|---|---|\n")
	for _, c := range cols {
		fmt.Fprintf(b, "| `%s` | %s | %s | %v | %s |\n", c.name, c.typ, c.unit, c.def, c.meaning)
	}
	b.WriteString("\n")
}
