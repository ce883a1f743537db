package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t testing.TB, path string) *Log {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func add(t testing.TB, l *Log, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, s string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFormat compares with a log written by Python's json and hashlib.
func TestFormat(t *testing.T) {
	want := read(t, "testdata/chain.jsonl")
	head, err := Verify("testdata/chain.jsonl")
	if err != nil || head.Seq != 3 {
		t.Errorf("got %v %v", head, err)
	}
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	add(t, l,
		Event{at("2026-01-02T03:04:05.000000006Z"), "admin_token", "config:reload", "config", OK, nil},
		Event{at("2026-01-02T05:04:06.12+02:00"), "key:abc", "key:issue", "tenant/acme", Begun,
			map[string]string{"id": "x", "a": "1"}},
		Event{at("2026-01-02T03:04:07Z"), "jwt:acme/Zoë", "plugin:push", `plugin/<b>&"q"`, Refused,
			map[string]string{"why": "团队\n"}})
	if got := read(t, path); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if l.Head() != head || !strings.HasSuffix(strings.TrimSpace(want), l.Head().String()[2:]+`"}`) {
		t.Errorf("head %s, want %s", l.Head(), head)
	}
	if again, err := ParseHead(head.String()); err != nil || again != head ||
		fmt.Sprintf("%x", head.Number()) != head.String()[2:14] {
		t.Errorf("got %v %v %x", again, err, head.Number())
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
}

// chain returns a log of n lines.
func chain(t testing.TB, n int) (path string, lines []string, head Head) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	for i := range n {
		add(t, l, Event{Actor: "a", Verb: "v", Object: fmt.Sprint("o", i), Result: OK})
	}
	return path, strings.SplitAfter(strings.TrimSuffix(read(t, path), "\n"), "\n"), l.Head()
}

// TestVerify_tampering changes a log in the ways that are possible with write access
// to the file.
func TestVerify_tampering(t *testing.T) {
	path, lines, head := chain(t, 6)
	lines[5] += "\n"
	f := func(what string, wantLine int, want error, edit func([]string) []string) {
		t.Helper()
		write(t, path, strings.Join(edit(append([]string(nil), lines...)), ""))
		v := Verifier{Anchor: head}
		err := v.File(path)
		if err == nil {
			err = v.Finish(path, true)
		}
		b, ok := errors.AsType[*BreakError](err)
		if !ok || b.Line != wantLine || !errors.Is(err, want) {
			t.Errorf("%s: got %v, want line %d: %v", what, err, wantLine, want)
		}
	}
	edit := func(i int, old, new string) func([]string) []string {
		return func(l []string) []string {
			if !strings.Contains(l[i], old) {
				t.Fatalf("%q is not in %q", old, l[i])
			}
			l[i] = strings.Replace(l[i], old, new, 1)
			return l
		}
	}
	f("edited object", 3, errHash, edit(2, `"o2"`, `"o9"`))
	f("edited first line", 1, errHash, edit(0, `"actor":"a"`, `"actor":"b"`))
	f("edited last line", 6, errHash, edit(5, `"result":"ok"`, `"result":"failed"`))
	f("hash of another line", 4, errHash, func(l []string) []string {
		l[3] = l[3][:len(l[3])-67] + l[2][len(l[2])-67:]
		return l
	})
	f("removed line", 3, errSeq, func(l []string) []string { return append(l[:2], l[3:]...) })
	f("removed first line", 1, errStart, func(l []string) []string { return l[1:] })
	f("duplicate line", 3, errSeq, func(l []string) []string { return append(l[:2], l[1:]...) })
	f("exchanged lines", 3, errSeq, func(l []string) []string { l[2], l[3] = l[3], l[2]; return l })
	f("cut end", 0, ErrAnchor, func(l []string) []string { return l[:4] })
	f("cut within a line", 6, ErrIncomplete, func(l []string) []string { l[5] = l[5][:20]; return l })
	f("space", 2, errForm, edit(1, `"seq":2,`, `"seq":2, `))
	f("other order", 2, errForm, func(l []string) []string {
		l[1] = strings.Replace(strings.Replace(l[1], `"verb":"v",`, "", 1), `"actor"`, `"verb":"v","actor"`, 1)
		return l
	})
	f("duplicate member", 2, errForm, edit(1, `"seq":2`, `"seq":9,"seq":2`))
	f("unknown member", 2, errForm, edit(1, `"seq":2`, `"seq":2,"x":1`))
	f("other case", 2, errForm, edit(1, `"seq":2`, `"SEQ":2`))
	f("upper-case hash", 2, errForm, func(l []string) []string {
		l[1] = l[1][:len(l[1])-67] + strings.ToUpper(l[1][len(l[1])-67:])
		return l
	})
	f("noise", 1, errForm, func([]string) []string { return []string{"hello\n"} })
	f("long line", 2, errForm, func(l []string) []string { l[1] = strings.Repeat("x", maxLine+10) + "\n"; return l })
	f("empty line", 2, errForm, func(l []string) []string { l[1] = "\n"; return l })

	// A newly computed chain is consistent in itself; only the anchor detects it.
	other, _, _ := chain(t, 6)
	write(t, path, read(t, other))
	if _, err := Verify(path); err != nil {
		t.Errorf("forged whole: %v", err)
	}
	f("forged whole", 6, ErrAnchor, func([]string) []string { return []string{read(t, other)} })

	write(t, path, strings.Join(lines, ""))
	v := Verifier{Anchor: head}
	if err := errors.Join(v.File(path), v.Finish(path, true)); err != nil || v.Lines != 6 || v.Head != head {
		t.Errorf("untouched: got %v, %+v", err, v)
	}
	write(t, path, lines[5])
	v = Verifier{Anchor: head}
	if err := errors.Join(v.File(path), v.Finish(path, false)); err != nil || v.First.Seq != 5 {
		t.Errorf("a part: got %v, %+v", err, v)
	}
}

// TestOpen_incomplete ends a file at every byte of its last line, as a crash would.
func TestOpen_incomplete(t *testing.T) {
	path, lines, _ := chain(t, 3)
	whole, last := lines[0]+lines[1], lines[2]+"\n"
	for cut := 1; cut < len(last); cut++ {
		write(t, path, whole+last[:cut])
		if _, err := Verify(path); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("cut at %d: Verify says %v", cut, err)
		}
		l, err := Open(path)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		add(t, l, Event{Verb: "next"})
		l.Close()
		got := read(t, path)
		if !strings.HasPrefix(got, whole) || !strings.Contains(got, `"verb":"audit:repair"`) ||
			!strings.Contains(got, fmt.Sprintf(`"bytes":"%d"`, cut)) {
			t.Fatalf("cut at %d: got\n%s", cut, got)
		}
		if head, err := Verify(path); err != nil || head.Seq != 4 {
			t.Fatalf("cut at %d: got %v %v", cut, head, err)
		}
	}
}

func TestOpen_refuses(t *testing.T) {
	path, lines, _ := chain(t, 3)
	write(t, path, lines[0]+strings.Replace(lines[1], `"o1"`, `"o2"`, 1))
	if _, err := Open(path); !errors.Is(err, ErrBroken) {
		t.Errorf("changed last line: got %v", err)
	}
	write(t, path, lines[0])
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("open to all: got %v", err)
	}
	if _, err := Open(filepath.Join(path, "x")); err == nil {
		t.Error("opened below a file")
	}
	write(t, path+"2", strings.Repeat("x", 3*maxLine)+"\n")
	if _, err := Open(path + "2"); !errors.Is(err, ErrBroken) {
		t.Errorf("one long line: got %v", err)
	}
}

// TestRotate: the chain spans files, also after a crash between two of them.
func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	l.max = 1000
	for i := range 20 {
		add(t, l, Event{Actor: "a", Verb: "v", Object: fmt.Sprint(i), Result: OK})
	}
	names, err := Archives(path)
	if err != nil || len(names) < 3 {
		t.Fatalf("got %v %v", names, err)
	}
	verify := func() Verifier {
		t.Helper()
		names, _ := Archives(path)
		v := Verifier{Anchor: l.Head()}
		for _, n := range append(names, path) {
			if err := v.File(n); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.Finish(path, true); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := verify(); v.Lines != 20+len(names) {
		t.Errorf("got %d lines", v.Lines)
	}
	// The crash: the file was renamed and no other was created.
	if err := os.Rename(path, archiveName(path, l.Head().Seq)); err != nil {
		t.Fatal(err)
	}
	l2 := open(t, path)
	add(t, l2, Event{Verb: "after"})
	add(t, l, Event{Verb: "by the first log, which sees the other file"})
	verify()
	// A file between two is missing.
	if err := os.Remove(names[1]); err != nil {
		t.Fatal(err)
	}
	var v Verifier
	if err := v.File(names[0]); err != nil {
		t.Fatal(err)
	}
	if err := v.File(names[2]); !errors.Is(err, errSeq) {
		t.Errorf("missing file: got %v", err)
	}
}

func TestAppend_bounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, path)
	e := Event{Actor: strings.Repeat("\x00", 5000), Verb: "\xff\xfe", Object: "\u2028<>", Detail: map[string]string{}}
	for i := range 100 {
		e.Detail[fmt.Sprintf("%03d%s", i, strings.Repeat("\x01", 2000))] = strings.Repeat("\x02", 5000)
	}
	add(t, l, e, Event{})
	if _, err := Verify(path); err != nil {
		t.Error(err)
	}
	l.Close()
	add(t, open(t, path), Event{})
	if head, err := Verify(path); err != nil || head.Seq != 3 {
		t.Errorf("got %v %v", head, err)
	}
	if n := len(read(t, path)); n > maxLine+1000 {
		t.Errorf("got %d bytes", n)
	}
}

// TestAppend_disk: an event that cannot be written is an error and is counted, and
// the chain continues once writing works again.
func TestAppend_disk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	l := open(t, path)
	add(t, l, Event{Verb: "one"})
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Event{Verb: "lost"}); err == nil || l.Failures() != 1 {
		t.Errorf("got %v, %d failures", err, l.Failures())
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	add(t, l, Event{Verb: "two"})
	if head, err := Verify(path); err != nil || head.Seq != 2 {
		t.Errorf("got %v %v", head, err)
	}
}

func TestCopy(t *testing.T) {
	path, lines, _ := chain(t, 4)
	l := open(t, path)
	for n, want := range map[int64]string{1 << 20: strings.Join(lines, "") + "\n", int64(len(lines[3]) + 5): lines[3] +
		"\n", 10: ""} {
		var b bytes.Buffer
		if err := l.Copy(&b, n); err != nil || b.String() != want {
			t.Errorf("%d: got %q %v, want %q", n, b.String(), err, want)
		}
	}
}

// TestLog_stress appends with several logs on one file, as several processes do,
// while the file is rotated again and again.
func TestLog_stress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var wg sync.WaitGroup
	for i := range 4 {
		l := open(t, path)
		l.max = 4000
		for range 2 {
			wg.Go(func() {
				for k := range 20 {
					if err := l.Append(Event{Actor: fmt.Sprint(i), Verb: fmt.Sprint(k)}); err != nil {
						t.Error(err)
					}
					l.Head()
				}
			})
		}
	}
	wg.Wait()
	names, err := Archives(path)
	if err != nil {
		t.Fatal(err)
	}
	var v Verifier
	for _, n := range append(names, path) {
		if err := v.File(n); err != nil {
			t.Error(err)
		}
	}
	if v.Lines != 160+len(names) || len(names) < 3 {
		t.Errorf("got %d lines in %d files", v.Lines, len(names)+1)
	}
}

// FuzzVerify: a log can be continued from any input that Verify accepts.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(read(f, "testdata/chain.jsonl")))
	f.Add([]byte("{}\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		var v Verifier
		if v.Read("x", bytes.NewReader(b)) != nil || v.Lines == 0 {
			return
		}
		path := filepath.Join(dir, "audit.log")
		write(t, path, string(b))
		l := open(t, path)
		if l.Head() != v.Head {
			t.Fatalf("got %v, want %v", l.Head(), v.Head)
		}
		add(t, l, Event{Verb: "x"})
		if _, err := Verify(path); err != nil {
			t.Fatal(err)
		}
	})
}
