// Package atomicfile writes small files whole: whoever reads one, in whatever
// process and after whatever crash, finds all of it or what was there before.
package atomicfile

import (
	"os"
	"path/filepath"
)

// TempPrefix begins the names of files under way, which stand in the directory
// of the file they become. What a crash left of them may be removed.
const TempPrefix = ".new-"

// Replace makes b the contents of path, with mode 0600, whether or not the file
// is there. The directory must exist. It returns when contents and name are on
// disk; on error the file is as it was, except that an error of the last step,
// syncing the directory, leaves open whether the change survives a crash. It may
// be called concurrently: one of the callers' contents stays.
func Replace(path string, b []byte) error {
	return write(path, b, os.Rename)
}

// Create is Replace for a file that must not be there: if it is, the error is
// fs.ErrExist and the file stays. Of several callers one succeeds.
func Create(path string, b []byte) error {
	return write(path, b, func(temp, path string) error {
		defer os.Remove(temp) // path is a second name of it
		return os.Link(temp, path)
	})
}

// write puts b on disk under a name of its own and has place give it path's.
func write(path string, b []byte, place func(temp, path string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, TempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	if err = fill(f, b); err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return SyncDir(dir)
}

// fill writes b to f, syncs and closes it.
func fill(f *os.File, b []byte) error {
	_, err := f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// SyncDir puts on disk which names stand in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
