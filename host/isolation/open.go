package isolation

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

// saveEvery is between two saves of a history that has changed. A router that dies
// without its last save does not know what it sent since; the next one then finds
// the history incomplete. More often costs a write of up to the filter's size.
const saveEvery = 5 * time.Minute

// openSuffix is of the file that exists while a process writes a history.
const openSuffix = ".open"

// File is a History that is kept in a file.
type File struct {
	*History
	path  string
	whole bool
	saved int64 // hashes added at the last save; belongs to Run
	log   *slog.Logger
}

// Open reads the history of a file. bytes is as for [New]. fresh says that no
// router has sent prompts under the present salts before: then there need be no
// file. One that cannot be read is logged and replaced by the next save: the
// history then begins anew.
func Open(path string, bytes int64, fresh bool, log *slog.Logger) *File {
	f := &File{History: New(bytes), path: path, log: log}
	f.whole = f.read() || fresh
	if _, err := os.Stat(path + openSuffix); err == nil {
		f.whole = false // whoever wrote it was killed before its last save
	}
	if err := atomicfile.Replace(path+openSuffix, nil); err != nil {
		log.Error("history of sent prompts is not marked as open", "file", path, "err", err)
	}
	if !f.whole {
		log.Warn("history of sent prompts is incomplete: unexplained cached tokens revoke no isolation until "+
			"an engine restarts or its events are live", "file", path)
	}
	f.saved = f.blocks.added()
	return f
}

// Complete reports whether the history holds everything that was sent under the
// present salts before Open: the last router that wrote it ended in good order.
func (f *File) Complete() bool { return f.whole }

// read loads the file and reports whether it has.
func (f *File) read() bool {
	in, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = f.Load(in)
		in.Close()
	}
	if err != nil {
		f.log.Warn("history of sent prompts is not used", "file", f.path, "err", err)
	}
	return err == nil
}

// Run saves the history now and then until ctx ends, and once more, which makes it
// complete for the next Open.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.save()
		case <-ctx.Done():
			if f.save() {
				os.Remove(f.path + openSuffix)
			}
			return ctx.Err()
		}
	}
}

// save writes the file if there is something new, and reports whether the file
// holds the history.
func (f *File) save() bool {
	n := f.blocks.added()
	if n == f.saved && f.stored() {
		return true
	}
	var b bytes.Buffer
	err := f.Save(&b)
	if err == nil {
		err = atomicfile.Replace(f.path, b.Bytes())
	}
	if err != nil {
		f.log.Error("history of sent prompts is not saved", "file", f.path, "err", err)
		return false
	}
	f.saved = n
	return true
}

func (f *File) stored() bool {
	_, err := os.Stat(f.path)
	return err == nil
}
