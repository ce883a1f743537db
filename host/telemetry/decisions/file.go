package decisions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// file is a file of lines that is rotated when it is large: path.1 is the newest
// rotated file, path.<keep> the oldest, which the next rotation deletes. It is not
// safe for concurrent use.
type file struct {
	path string
	max  int64
	keep int
	sync bool

	f    *os.File
	size int64 // of whole lines
}

// maxTail is how much of the file's end is searched for the end of the last line: more
// than the length of any line.
const maxTail = 1 << 20

// open opens the file for appending after its last whole line: an incomplete line,
// which a crash left, is cut off.
func (o *file) open() error {
	f, err := os.OpenFile(o.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", o.path)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("decisions: %w", err)
	}
	tail := make([]byte, min(st.Size(), maxTail))
	if _, err := f.ReadAt(tail, st.Size()-int64(len(tail))); err != nil && err != io.EOF {
		f.Close()
		return fmt.Errorf("decisions: %w", err)
	}
	o.f, o.size = f, st.Size()-int64(len(tail))+int64(bytes.LastIndexByte(tail, '\n')+1)
	return nil
}

// write appends lines. The next call overwrites what was written incompletely.
func (o *file) write(b []byte) error {
	if o.f == nil {
		if err := o.open(); err != nil {
			return err
		}
	}
	if o.moved() {
		o.close()
		if err := o.open(); err != nil {
			return err
		}
	}
	if o.size > 0 && o.size+int64(len(b)) > o.max {
		if err := o.rotate(); err != nil {
			return err
		}
	}
	if err := o.f.Truncate(o.size); err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	if _, err := o.f.WriteAt(b, o.size); err != nil {
		return fmt.Errorf("decisions: %w", err)
	}
	if o.sync {
		if err := o.f.Sync(); err != nil {
			return fmt.Errorf("decisions: %w", err)
		}
	}
	o.size += int64(len(b))
	return nil
}

// moved reports whether the file was renamed, as logrotate does.
func (o *file) moved() bool {
	own, err := o.f.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(o.path)
	return err != nil || !os.SameFile(own, there)
}

// rotate renames the file and opens a new one.
func (o *file) rotate() error {
	for n := o.keep; n > 0; n-- {
		from := o.path
		if n > 1 {
			from += "." + strconv.Itoa(n-1)
		}
		if err := os.Rename(from, o.path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("decisions: %w", err)
		}
	}
	o.close()
	return o.open()
}

func (o *file) close() {
	if o.f != nil {
		o.f.Close()
		o.f = nil
	}
}
