package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// BreakError reports the place where a chain is broken.
type BreakError struct {
	File string
	Line int // from 1; 0 = after the last one
	Err  error
}

// Error implements error.
func (e *BreakError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("audit: %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("audit: %s: line %d %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *BreakError) Unwrap() error { return e.Err }

// Verifier checks files that follow one another. The zero value is ready.
type Verifier struct {
	// Anchor is a head that was kept elsewhere and must be in the chain. Zero = none
	// was kept: then a cut end or a newly computed chain is not detected.
	Anchor Head

	Lines int  // checked
	First Head // that the first line follows; zero = the beginning of the log
	Head  Head // of the last line

	met bool // the anchor
}

// ErrAnchor is wrapped by Verifier.Finish if the anchor is not in the chain.
var ErrAnchor = errors.New("does not contain the anchor: its end was cut off, or the chain was computed anew")

// ErrIncomplete is wrapped if the file ends within a line: a crash left it
// incomplete, and the next Open removes it.
var ErrIncomplete = errors.New("ends within a line")

// Verify checks the one file at path by itself and returns its head. The error is
// a *BreakError for the first broken line, or an error of reading.
func Verify(path string) (Head, error) {
	var v Verifier
	if err := v.File(path); err != nil {
		return v.Head, err
	}
	return v.Head, nil
}

// File checks the next file of the chain.
func (v *Verifier) File(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	return v.Read(path, f)
}

// Read is File for the content of r; name is used in errors.
func (v *Verifier) Read(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine+1)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err == io.EOF:
			return &BreakError{name, n, ErrIncomplete}
		case errors.Is(err, bufio.ErrBufferFull):
			return &BreakError{name, n, errForm}
		case err != nil:
			return fmt.Errorf("audit: %w", err)
		}
		if err := v.line(line[:len(line)-1]); err != nil {
			return &BreakError{name, n, err}
		}
	}
}

func (v *Verifier) line(line []byte) error {
	_, before, own, err := parse(line)
	if err != nil {
		return err
	}
	switch {
	case v.Lines == 0:
		v.First = before
		v.met = before == v.Anchor
	case before.Seq != v.Head.Seq:
		return errSeq
	case before.Hash != v.Head.Hash:
		return errPrev
	}
	if own.Seq == v.Anchor.Seq {
		if own.Hash != v.Anchor.Hash {
			return fmt.Errorf("%w (it has number %d)", ErrAnchor, own.Seq)
		}
		v.met = true
	}
	v.Head = own
	v.Lines++
	return nil
}

// Finish ends the check after the last file, named name. whole means that the
// files must begin with the log's first line.
func (v *Verifier) Finish(name string, whole bool) error {
	if whole && v.First.Seq > 0 {
		return &BreakError{name, 1, errStart}
	}
	if v.Anchor != (Head{}) && !v.met {
		return &BreakError{name, 0, fmt.Errorf("%w (it ends with %d, the anchor is %d)", ErrAnchor, v.Head.Seq, v.Anchor.Seq)}
	}
	return nil
}

// ParseHead reads what Head.String writes.
func ParseHead(s string) (Head, error) {
	seq, sum, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(seq, 10, 64)
	h, ok := unhex(sum)
	if err != nil || !ok {
		return Head{}, fmt.Errorf("audit: bad head %q: want NUMBER:HASH", s)
	}
	return Head{n, h}, nil
}
