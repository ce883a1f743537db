package policy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of the files. Each is far above what a site needs: the data of 10,000 tenants
// is 5 MB, the shipped policies are 30 KB.
const (
	maxFileBytes  = 16 << 20
	maxTotalBytes = 64 << 20
	maxFiles      = 20_000
	maxModules    = 500
)

// Folders of a policy directory that contain no rules.
const (
	dataFolder     = "data"
	schemaFolder   = "schemas"
	exampleFolder  = "examples"
	capabilityFile = "capabilities.json"
)

// Source is the files of a policy. It is immutable and holds nothing open.
type Source struct {
	modules      map[string][]byte // *.rego by path
	schemas      map[string][]byte // by name without .json
	capabilities []byte            // nil = the built-in list
	data         map[string][]byte // *.json by path below the data directory

	policyDigest, dataDigest [sha256.Size]byte
}

// Read is ReadDir for file systems that do not change; if data is nil, the folder
// data of policy is used.
func Read(policy, data fs.FS) (*Source, error) {
	var r reader
	r.left = maxTotalBytes
	s := newSource()
	r.walk(policy, ".", func(name string, text func() []byte) { s.takePolicy(name, text) })
	if data == nil {
		data = below{policy, dataFolder}
	}
	if _, err := fs.Stat(data, "."); !errors.Is(err, fs.ErrNotExist) {
		r.prefix = dataFolder
		r.walk(data, ".", func(name string, text func() []byte) { s.takeData(name, text, &r.faults) })
	}
	return s.finish(&r.faults)
}

// below is a folder of a file system. The result of fs.Sub opens files for Stat, and
// so would block on a pipe.
type below struct {
	all fs.FS
	dir string
}

// Open implements fs.FS.
func (b below) Open(name string) (fs.File, error) { return b.all.Open(path.Join(b.dir, name)) }

// Stat implements fs.StatFS.
func (b below) Stat(name string) (fs.FileInfo, error) { return fs.Stat(b.all, path.Join(b.dir, name)) }

// FromFiles returns the Source of files as Files returns them.
func FromFiles(files map[string][]byte) (*Source, error) {
	var f faults
	s, total := newSource(), 0
	for name, text := range files {
		total += len(text)
		if !fs.ValidPath(name) || len(text) > maxFileBytes {
			f.add(name, 0, 0, fmt.Sprintf("invalid path, or more than %d bytes", maxFileBytes),
				"name files relative to the policy's directory, and split large ones")
		} else if below, ok := strings.CutPrefix(name, dataFolder+"/"); ok {
			s.takeData(below, func() []byte { return text }, &f)
		} else {
			s.takePolicy(name, func() []byte { return text })
		}
	}
	if total > maxTotalBytes || len(files) > maxFiles {
		f.add("", 0, 0, fmt.Sprintf("%d files of %d bytes, more than %d files or %d bytes", len(files), total, maxFiles,
			maxTotalBytes), "move files that no rule uses out of the directory")
	}
	return s.finish(&f)
}

func newSource() *Source {
	return &Source{modules: map[string][]byte{}, schemas: map[string][]byte{}, data: map[string][]byte{}}
}

// finish computes the digests of a source that has all its files.
func (s *Source) finish(f *faults) (*Source, error) {
	if len(s.modules) == 0 {
		f.add("", 0, 0, "no *.rego file", "name the directory that holds kvasir/decision.rego")
	}
	if len(s.modules) > maxModules {
		f.add("", 0, 0, fmt.Sprintf("%d modules, more than %d", len(s.modules), maxModules),
			"describe tenants in data, not in Rego")
	}
	h := sha256.New()
	hashFiles(h, s.modules)
	hashFiles(h, s.schemas)
	fmt.Fprintf(h, "%d:%s", len(s.capabilities), s.capabilities)
	h.Sum(s.policyDigest[:0])
	h.Reset()
	hashFiles(h, s.data)
	h.Sum(s.dataDigest[:0])
	return s, f.err()
}

func hashFiles(h io.Writer, files map[string][]byte) {
	fmt.Fprintf(h, "%d;", len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d:%s%d:", len(name), name, len(files[name]))
		h.Write(files[name])
	}
}

// takePolicy adds a file of the policy directory if it belongs to the policy.
func (s *Source) takePolicy(name string, text func() []byte) {
	top, rest, deep := strings.Cut(name, "/")
	switch {
	case deep && (top == dataFolder || top == exampleFolder):
	case deep && top == schemaFolder:
		if path.Ext(rest) == ".json" && !strings.Contains(rest, "/") {
			s.schemas[strings.TrimSuffix(rest, ".json")] = text()
		}
	case name == capabilityFile:
		s.capabilities = text()
	case path.Ext(name) == ".rego":
		s.modules[name] = text()
	}
}

// takeData adds a file of the data directory if it is data.
func (s *Source) takeData(name string, text func() []byte, f *faults) {
	switch path.Ext(name) {
	case ".json":
		s.data[name] = text()
	case ".yaml", ".yml":
		f.add(dataName(name), 0, 0, "YAML data is not supported", "write it as JSON")
	}
}

// Digest returns the digests of the policy and of its data: 12 hexadecimal digits
// each.
func (s *Source) Digest() (policy, data string) {
	return short(s.policyDigest), short(s.dataDigest)
}

func short(sum [sha256.Size]byte) string { return fmt.Sprintf("%x", sum[:6]) }

// Files returns every file, those of the data directory below "data/".
func (s *Source) Files() map[string][]byte {
	out := maps.Clone(s.modules)
	for name, text := range s.schemas {
		out[path.Join(schemaFolder, name+".json")] = text
	}
	for name, text := range s.data {
		out[path.Join(dataFolder, name)] = text
	}
	if s.capabilities != nil {
		out[capabilityFile] = s.capabilities
	}
	return out
}

// Equal reports whether both sources hold the same files with the same contents.
func (s *Source) Equal(o *Source) bool {
	return s != nil && o != nil && s.policyDigest == o.policyDigest && s.dataDigest == o.dataDigest
}

// reader reads files within bounds.
type reader struct {
	faults
	left   int64 // bytes that may still be read
	files  int
	prefix string // of the names in errors
}

// walk calls take for every file below root.
func (r *reader) walk(f fs.FS, root string, take func(name string, text func() []byte)) {
	err := fs.WalkDir(f, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if st, err := fs.Stat(f, name); err == nil && st.IsDir() {
			return nil // a link to a directory is not followed
		}
		take(name, func() []byte { return r.read(f, name) })
		return nil
	})
	if err != nil {
		r.add("", 0, 0, err.Error(), "make the policy's files readable by the router")
	}
}

// read returns the content of one file, nil and an error in r if it cannot be read.
func (r *reader) read(f fs.FS, name string) []byte {
	if r.files++; r.files == maxFiles+1 {
		r.add("", 0, 0, fmt.Sprintf("more than %d files", maxFiles), "put several tenants into one file")
	}
	if r.files > maxFiles || r.left <= 0 {
		return nil
	}
	if st, err := fs.Stat(f, name); err == nil && !st.Mode().IsRegular() { // opening a pipe blocks until it has a writer
		r.add(path.Join(r.prefix, name), 0, 0, "not a regular file", "put a file there, or a link to one")
		return nil
	}
	file, err := f.Open(name)
	if err != nil {
		r.add(path.Join(r.prefix, name), 0, 0, err.Error(), "make it readable by the router")
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	r.left -= int64(len(text))
	switch {
	case err != nil:
		r.add(path.Join(r.prefix, name), 0, 0, err.Error(), "make it readable by the router")
	case len(text) > maxFileBytes:
		r.add(path.Join(r.prefix, name), 0, 0, fmt.Sprintf("more than %d bytes", maxFileBytes), "split it")
	case r.left <= 0:
		r.add(path.Join(r.prefix, name), 0, 0, fmt.Sprintf("with this file the policy has more than %d bytes", maxTotalBytes),
			"move files that no rule uses out of the directory")
	default:
		return text
	}
	return nil
}

// names returns the names of the modules in order.
func (s *Source) names() []string { return slices.Sorted(maps.Keys(s.modules)) }
