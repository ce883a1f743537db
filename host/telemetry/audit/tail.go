package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// end describes the end of a file.
type end struct {
	size    int64 // of its whole lines
	head    Head
	partial []byte // an incomplete line after them, left by a crash; nil = none
}

// findEnd reads the last line of a file of the given size. Text without a newline
// is a line that a crash left incomplete: each line is written with its newline in
// one call, and Append returns only after that.
func findEnd(f io.ReaderAt, size int64) (e end, err error) {
	b, err := lastBytes(f, size, 2*maxLine)
	if err != nil {
		return e, err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	if whole < len(b) {
		e.partial = b[whole:]
	}
	e.size = size - int64(len(e.partial))
	if e.size == 0 {
		return e, nil
	}
	if whole == 0 {
		return e, fmt.Errorf("%w: no line end within %d bytes", ErrBroken, len(b))
	}
	line := b[:whole-1]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if _, _, e.head, err = parse(line); err != nil {
		return e, fmt.Errorf("%w: the last line %v", ErrBroken, err)
	}
	return e, nil
}

// repair is the event that records the removal of an incomplete line.
func (e *end) repair() Event {
	sum := sha256.Sum256(e.partial)
	return Event{Actor: "system", Verb: "audit:repair", Object: "incomplete line", Result: OK, Detail: map[string]string{
		"bytes": strconv.Itoa(len(e.partial)), "sha256": hex.EncodeToString(sum[:]),
	}}
}

// lastBytes reads the last n bytes of a file of the given size, fewer if it is
// shorter.
func lastBytes(f io.ReaderAt, size, n int64) ([]byte, error) {
	b := make([]byte, min(size, n))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil && err != io.EOF {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return b, nil
}

// copyTail writes the whole lines among the last n bytes of f.
func copyTail(w io.Writer, f *os.File, n int64) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	b, err := lastBytes(f, st.Size(), n)
	if err != nil {
		return err
	}
	if int64(len(b)) < st.Size() {
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	_, err = w.Write(b[:bytes.LastIndexByte(b, '\n')+1])
	return err
}

// archiveName is the name that a file gets whose last line has number seq.
func archiveName(path string, seq uint64) string { return path + "." + strconv.FormatUint(seq, 10) }

// Archives returns the rotated files of the log at path, oldest first.
func Archives(path string) ([]string, error) {
	list, err := archives(path)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, seq := range list {
		names[i] = archiveName(path, seq)
	}
	return names, nil
}

// archived returns the end of the newest rotated file, which an empty file
// continues; zero if there is none.
func archived(path string) (Head, error) {
	list, err := archives(path)
	if err != nil || len(list) == 0 {
		return Head{}, err
	}
	f, err := os.Open(archiveName(path, list[len(list)-1]))
	if err != nil {
		return Head{}, fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Head{}, fmt.Errorf("audit: %w", err)
	}
	e, err := findEnd(f, st.Size())
	if err != nil {
		return Head{}, fmt.Errorf("%w (file %s)", err, f.Name())
	}
	return e.head, nil
}

// archives returns the numbers behind path of the files beside it, ascending.
func archives(path string) ([]uint64, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	var out []uint64
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if seq, err := strconv.ParseUint(rest, 10, 64); ok && err == nil && strconv.FormatUint(seq, 10) == rest {
			out = append(out, seq)
		}
	}
	slices.Sort(out)
	return out, nil
}
