// Package atomicfile writes small files atomically: a reader in any process, also
// after a crash, finds either the whole new contents or the previous ones.
package atomicfile

import (
	"os"
	"path/filepath"
)

// TempPrefix begins the names of temporary files, which are in the directory of
// the file that they become. Temporary files that a crash left may be removed.
const TempPrefix = ".new-"

// Replace makes b the contents of path, with mode 0600, whether or not the file
// exists. The directory must exist. Replace returns when contents and name are on
// disk. On error the file is unchanged, except that after an error of the last
// step, syncing the directory, the change may or may not survive a crash. Replace
// may be called concurrently: the contents of one of the callers remain.
func Replace(path string, b []byte) error {
	return write(path, b, os.Rename)
}

// Create is Replace for a file that must not exist: if it does, the error is
// fs.ErrExist and the file is unchanged. Of several callers one succeeds.
func Create(path string, b []byte) error {
	return write(path, b, func(temp, path string) error {
		defer os.Remove(temp) // path is a second name of it
		return os.Link(temp, path)
	})
}

// write writes b to a temporary file and calls place to move it to path.
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

// SyncDir syncs the entries of a directory to disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
