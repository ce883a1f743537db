package policy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readAttempts is the number of attempts to read a directory that changes during the
// read. A deployment replaces a directory by a single rename, so that the second read
// sees one version; five attempts also cover an editor that saves several files.
const readAttempts = 5

// ReadDir reads the policy in dir: its *.rego files, the folder schemas and
// capabilities.json. Data is read from dataDir, "" = the folder data of dir.
// Folders named examples, and files and folders whose names begin with a dot or
// ..data as Kubernetes makes them, are not read.
//
// The result is the contents of the directories at one time: if files change during
// the read, or a link points to another version of the directory, ReadDir reads again.
// Errors are Faults.
func ReadDir(dir, dataDir string) (*Source, error) {
	dirs := []string{dir}
	if dataDir != "" {
		dirs = append(dirs, dataDir)
	}
	for range readAttempts {
		at := resolve(dirs)
		before := listDirs(at)
		s, err := readDirs(dirs, at)
		if slices.Equal(at, resolve(dirs)) && before.equal(listDirs(at)) {
			return s, err
		}
	}
	return nil, Faults{{
		What: fmt.Sprintf("%s changed during each of %d reads", dir, readAttempts),
		Fix:  "write the new version beside it and replace it with one rename",
	}}
}

// resolve returns dirs with symbolic links resolved, so that one read stays in one
// version of a directory. A directory that does not exist is returned unchanged.
func resolve(dirs []string) []string {
	out := slices.Clone(dirs)
	for i, d := range dirs {
		if real, err := filepath.EvalSymlinks(d); err == nil {
			out[i] = real
		}
	}
	return out
}

// readDirs reads the policy in at[0], and its data in at[1] if there is one. Errors
// name dirs, which at was resolved from.
func readDirs(dirs, at []string) (*Source, error) {
	for _, d := range dirs {
		if st, err := os.Stat(d); err != nil {
			return nil, Faults{{What: err.Error(), Fix: "name a directory that holds the policy"}}
		} else if !st.IsDir() {
			return nil, Faults{{File: d, What: "not a directory", Fix: "name the directory that holds the policy"}}
		}
	}
	if len(at) == 1 {
		return Read(os.DirFS(at[0]), nil)
	}
	return Read(os.DirFS(at[0]), os.DirFS(at[1]))
}

// listing is the identity, size and time of change of each file that a read may
// open, in order.
type listing struct {
	names []string
	files []fs.FileInfo
}

// listDirs lists the files below dirs. It leaves out files that cannot be listed:
// reading them returns the error.
func listDirs(dirs []string) listing {
	var l listing
	for _, dir := range dirs {
		f := os.DirFS(dir)
		fs.WalkDir(f, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if name != "." && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if len(l.names) > maxFiles+maxModules { // the read refuses them
				return fs.SkipAll
			}
			if st, err := fs.Stat(f, name); err == nil {
				l.names, l.files = append(l.names, name), append(l.files, st)
			}
			return nil
		})
	}
	return l
}

func (l listing) equal(o listing) bool {
	return slices.Equal(l.names, o.names) && slices.EqualFunc(l.files, o.files, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
