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
// without its last save does not know what it sent since: prompts first sent in
// those minutes and found again in a tier without events count as another's. More
// often costs a write of up to the filter's size.
const saveEvery = 5 * time.Minute

// File is a History that is kept in a file.
type File struct {
	*History
	path  string
	saved int64 // hashes added at the last save; belongs to Run
	log   *slog.Logger
}

// Open reads the history of a file, which need not exist. bytes is as for [New]. A
// file that cannot be read is logged and replaced by the next save: the history
// then begins anew.
func Open(path string, bytes int64, log *slog.Logger) *File {
	f := &File{History: New(bytes), path: path, log: log}
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err == nil {
		err = f.Load(in)
		in.Close()
	}
	if err != nil {
		log.Warn("history of sent prompts is not used", "file", path, "err", err)
	}
	f.saved = f.blocks.added()
	return f
}

// Run saves the history now and then until ctx ends, and once more.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.save()
		case <-ctx.Done():
			f.save()
			return ctx.Err()
		}
	}
}

// save writes the file if there is something new.
func (f *File) save() {
	n := f.blocks.added()
	if n == f.saved {
		return
	}
	var b bytes.Buffer
	err := f.Save(&b)
	if err == nil {
		err = atomicfile.Replace(f.path, b.Bytes())
	}
	if err != nil {
		f.log.Error("history of sent prompts is not saved", "file", f.path, "err", err)
		return
	}
	f.saved = n
}
