package policy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// Bounds of what is read. Each is far above what a site has: 10,000 tenants are
// 5 MB of data, the policies that ship 30 KB.
const (
	maxFileBytes  = 16 << 20
	maxTotalBytes = 64 << 20
	maxFiles      = 20_000
	maxModules    = 500
)

// Folders of a policy directory that hold no rules.
const (
	dataFolder     = "data"
	schemaFolder   = "schemas"
	exampleFolder  = "examples"
	capabilityFile = "capabilities.json"
)

// Source is a policy as it was read: contents of files, and nothing open. It is
// immutable.
type Source struct {
	modules      map[string][]byte // *.rego by path
	schemas      map[string][]byte // by name without .json
	capabilities []byte            // nil = the built-in list
	data         map[string][]byte // *.json by path below the data directory

	policyDigest, dataDigest [sha256.Size]byte
}

// ReadDir reads the policy in dir: its *.rego files, the folder schemas and
// capabilities.json. Data is read from dataDir, "" = the folder data of dir.
// Folders named examples, and files and folders whose names begin with a dot or
// ..data as Kubernetes makes them, are not read. Errors are Faults.
func ReadDir(dir, dataDir string) (*Source, error) {
	for _, d := range []string{dir, dataDir} {
		if d == "" {
			continue
		}
		if st, err := os.Stat(d); err != nil {
			return nil, Faults{{What: err.Error(), Mend: "name a directory that holds the policy"}}
		} else if !st.IsDir() {
			return nil, Faults{{File: d, What: "is no directory", Mend: "name the directory that holds the policy"}}
		}
	}
	if dataDir == "" {
		return Read(os.DirFS(dir), nil)
	}
	return Read(os.DirFS(dir), os.DirFS(dataDir))
}

// Read is ReadDir for file systems; data nil = the folder data of policy.
func Read(policy, data fs.FS) (*Source, error) {
	s := &Source{modules: map[string][]byte{}, schemas: map[string][]byte{}, data: map[string][]byte{}}
	r := reader{left: maxTotalBytes}
	s.policyDigest = r.walk(policy, ".", func(name string, text func() []byte) bool { return s.takePolicy(name, text, &r) })
	if data == nil {
		if sub, err := fs.Sub(policy, dataFolder); err == nil {
			data = sub
		}
	}
	if _, err := fs.Stat(data, "."); !errors.Is(err, fs.ErrNotExist) {
		s.dataDigest = r.walk(data, ".", func(name string, text func() []byte) bool { return s.takeData(name, text, &r) })
	}
	if len(s.modules) == 0 {
		r.add("", 0, 0, "no *.rego file", "name the directory that holds kvasir/decision.rego")
	}
	if len(s.modules) > maxModules {
		r.add("", 0, 0, fmt.Sprintf("%d modules, at most %d are taken", len(s.modules), maxModules), "tell tenants apart by data, not by Rego")
	}
	return s, r.err()
}

// takePolicy keeps a file of the policy directory and reports whether it did.
func (s *Source) takePolicy(name string, text func() []byte, r *reader) bool {
	top, rest, deep := strings.Cut(name, "/")
	switch {
	case deep && (top == dataFolder || top == exampleFolder):
		return false
	case deep && top == schemaFolder:
		if path.Ext(rest) == ".json" && !strings.Contains(rest, "/") {
			s.schemas[strings.TrimSuffix(rest, ".json")] = text()
			return true
		}
	case name == capabilityFile:
		s.capabilities = text()
		return true
	case path.Ext(name) == ".rego":
		s.modules[name] = text()
		return true
	}
	return false
}

// takeData keeps a file of the data directory and reports whether it did.
func (s *Source) takeData(name string, text func() []byte, r *reader) bool {
	switch path.Ext(name) {
	case ".json":
		s.data[name] = text()
		return true
	case ".yaml", ".yml":
		r.add(name, 0, 0, "data in YAML is not read", "write it as JSON")
	}
	return false
}

// Digest names what was read of the policy and of its data: 12 hexadecimal
// digits each.
func (s *Source) Digest() (policy, data string) {
	return short(s.policyDigest), short(s.dataDigest)
}

func short(sum [sha256.Size]byte) string { return fmt.Sprintf("%x", sum[:6]) }

// Files returns every file that was read, those of the data directory below
// "data/": what a last good copy must hold.
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
	left  int64 // bytes that may still be read
	files int
}

// walk offers every file below root to take, in the order of names, and returns
// a digest of the names and contents of those taken.
func (r *reader) walk(f fs.FS, root string, take func(name string, text func() []byte) bool) (sum [sha256.Size]byte) {
	h := sha256.New()
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
		var text []byte
		if take(name, func() []byte { text = r.read(f, name); return text }) {
			fmt.Fprintf(h, "%d:%s%d:", len(name), name, len(text))
			h.Write(text)
		}
		return nil
	})
	if err != nil {
		r.add("", 0, 0, err.Error(), "make the policy's files readable for the router")
	}
	h.Sum(sum[:0])
	return sum
}

// read returns the contents of one file, nil with a fault if it cannot.
func (r *reader) read(f fs.FS, name string) []byte {
	if r.files++; r.files == maxFiles+1 {
		r.add("", 0, 0, fmt.Sprintf("more than %d files", maxFiles), "put several tenants into one file")
	}
	if r.files > maxFiles || r.left <= 0 {
		return nil
	}
	file, err := f.Open(name)
	if err != nil {
		r.add(name, 0, 0, err.Error(), "make it readable for the router")
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	r.left -= int64(len(text))
	switch {
	case err != nil:
		r.add(name, 0, 0, err.Error(), "make it readable for the router")
	case len(text) > maxFileBytes:
		r.add(name, 0, 0, fmt.Sprintf("more than %d bytes", maxFileBytes), "split it")
	case r.left <= 0:
		r.add(name, 0, 0, fmt.Sprintf("with this file the policy has more than %d bytes", maxTotalBytes), "keep what no rule reads elsewhere")
	default:
		return text
	}
	return nil
}

// names lists the modules in order.
func (s *Source) names() []string { return slices.Sorted(maps.Keys(s.modules)) }
