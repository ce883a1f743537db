package jinja

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func render(t testing.TB, src string, opt Options, vars map[string]Value) (string, error) {
	t.Helper()
	c, err := Compile(src, opt)
	if err != nil {
		return "", err
	}
	var out Output
	err = c.Render(vars, at, &out)
	return string(out.Append(nil)), err
}

// TestRender_bounds renders templates that would run or grow without end and expects an error.
func TestRender_bounds(t *testing.T) {
	long := Own(strings.Repeat("word ", 200_000), nil)
	for name, c := range map[string]struct {
		src  string
		want error
	}{
		"loops in loops": {`{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}`, ErrSteps},
		"walk by index":  {`{% for i in range(99999) %}{{ ('é' ~ x)[i] }}{% endfor %}`, ErrBytes},
		"doubling": {`{% set n = namespace(s=x) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% ` +
			`endfor %}{{ n.s | length }}`, ErrBytes},
		"doubling short": {`{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% ` +
			`endfor %}`, ErrBytes},
		"doubling list": {`{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% ` +
			`endfor %}`, ErrBytes},
		"nested list": {`{% set n = namespace(s=[1]) %}{% for i in range(99999) %}{% set n.s = [n.s] %}{% ` +
			`endfor %}{{ n.s }}`, ErrDepth},
		"nested list as json": {`{% set n = namespace(s=[1]) %}{% for i in range(99999) %}{% set n.s = [n.s] %}{% ` +
			`endfor %}{{ n.s | tojson }}`, ErrDepth},
		"nested list compared": {`{% set n = namespace(s=[1], u=[1]) %}{% for i in range(9999) %}{% set n.s = [n.s] ` +
			`%}{% set n.u = [n.u] %}{% endfor %}{{ n.s == n.u }}`, ErrDepth},
		"repeat":    {`{{ 'abc' * 999999999999 }}`, ErrBytes},
		"replace":   {`{{ x | replace('w', y) }}`, ErrBytes},
		"recursion": {`{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}`, ErrDepth},
		"pad":       {`{% for i in range(99999) %}{{ x }}{{ x[1:] | upper }}{% endfor %}`, ErrBytes},
	} {
		_, err := render(t, c.src, Options{MaxSteps: 1 << 20, MaxBytes: 32 << 20}, map[string]Value{"x": long, "y": long})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestCompile_depth compiles source nested too deeply and expects an error.
func TestCompile_depth(t *testing.T) {
	for _, src := range []string{
		"{{ " + strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000) + " }}",
		"{{ " + strings.Repeat("not ", 10_000) + "1 }}",
		"{{ " + strings.Repeat("-", 10_000) + "1 }}",
		strings.Repeat("{% if x %}", 10_000),
	} {
		if _, err := Compile(src, Options{}); !errors.Is(err, ErrDepth) {
			t.Errorf("%.20s…: %v, want ErrDepth", src, err)
		}
	}
}

// TestUnsupported_byName expects errors that name the unsupported part.
func TestUnsupported_byName(t *testing.T) {
	for src, want := range map[string]string{
		`{{ x | xmlattr }}`:                           `filter "xmlattr"`,
		`{{ x is escaped }}`:                          `test "escaped"`,
		`{{ 'a'.swapcase() }}`:                        `method "swapcase" of a string`,
		`{{ cycler(1, 2) }}`:                          `function "cycler"`,
		`{% include 'x' %}`:                           `tag "include"`,
		`{% raw %}{{ x }}{% endraw %}`:                `tag "raw"`,
		`{% for x in y recursive %}{% endfor %}`:      `a recursive loop`,
		`{{ 9223372036854775807 + 1 }}`:               `arithmetic of integers beyond 64 bits`,
		`{{ 'straße' | upper }}`:                      `the other case of U+00DF`,
		`{{ strftime_now('%G') }}`:                    `date directive "%G"`,
		`{{ [1] | select('sameas', 1) | list }}`:      `test "sameas"`,
		`{{ [1] | map('filesizeformat') | list }}`:    `filter "filesizeformat"`,
		`{{ '%5.2f' % 1.5 }}`:                         `format "%5"`,
		`{% set x | wordcount %}a{% endset %}{{ x }}`: `filter "wordcount"`,
		`{{ 0x10 }}`:                                  `the number at offset 3`,
	} {
		_, err := render(t, src, Options{}, nil)
		var u *UnsupportedError
		if !errors.As(err, &u) || u.What != want {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

func TestRender_raised(t *testing.T) {
	_, err := render(t, `{{ raise_exception('no ' ~ x) }}`, Options{}, map[string]Value{"x": Str("secret")})
	var r *RaisedError
	if !errors.As(err, &r) || r.Message != "no secret" {
		t.Errorf("%v, want a RaisedError", err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes the conversation: %v", err)
	}
	var rt *RuntimeError
	if _, err := render(t, `{{ x.y.z }}`, Options{}, nil); !errors.As(err, &rt) {
		t.Errorf("%v, want a RuntimeError", err)
	}
	var s *SyntaxError
	if _, err := render(t, "ab{% if x }", Options{}, nil); !errors.As(err, &s) {
		t.Errorf("%v, want a SyntaxError", err)
	}
}

// TestRender_clock renders the time that is passed to Render.
func TestRender_clock(t *testing.T) {
	c, err := Compile(`{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %p %-d %%') }}`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out Output
	zone := time.FixedZone("", 9*3600)
	if err := c.Render(nil, time.Date(2026, 3, 4, 20, 6, 7, 0, time.UTC).In(zone), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := string(out.Append(nil)), "2026-03-05 05:06:07 Thursday March 064 AM 5 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
