package plugins

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// fromFolder is the source of a module in the watched folder.
const fromFolder = "folder"

// folderEvery is the interval at which the watched folder is scanned. Two consecutive
// scans must agree, so that a file is not loaded while it is written: a saved file is
// in force after at most twice this time and its loading, less than a second for a
// small module. A scan costs a stat call per file.
const folderEvery = 150 * time.Millisecond

// settled is the age from which a file of the same size and time is unchanged: times of
// file systems have steps of up to two seconds, and a second write within a step is
// only visible in the contents.
const settled = 3 * time.Second

// maxFolderFiles limits the modules of the folder: their code is kept in memory,
// because a file may become invalid while its module is in force.
const maxFolderFiles = 32

// folder is the watched folder: NAME.wasm in it is the module of plugin NAME.
type folder struct {
	dir string // "" = none

	// Of the one goroutine that scans.
	stats   map[string]folderFile        // by file
	last    map[string][sha256.Size]byte // contents at the look before, by file
	tried   map[string]triedFile         // by file
	trouble string                       // the last error of the folder as a whole

	mu      sync.Mutex // guards what follows
	held    map[string]heldModule
	refused map[string]error
}

// heldModule is the module of a file in the folder.
type heldModule struct {
	code   []byte
	scores bool // it has the role score
}

// folderFile remembers a file's contents by its size and time of change.
type folderFile struct {
	size    int64
	changed time.Time // of the file system
	read    time.Time
	sum     [sha256.Size]byte
	fault   error // why it cannot be a module, nil if it may be one
}

// triedFile is the last attempt to put a file, or its absence, in force.
type triedFile struct {
	sum     [sha256.Size]byte
	refused bool
	cfg     *config.Config // of the rules it was tried with: others may take it
}

func newFolder(dir string) *folder {
	return &folder{dir: dir, held: map[string]heldModule{}, stats: map[string]folderFile{}, tried: map[string]triedFile{},
		refused: map[string]error{}}
}

// code returns the module of a plugin, nil if the folder has none.
func (f *folder) code(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[name].code
}

// modules returns a copy of the modules, by plugin.
func (f *folder) modules() map[string]heldModule {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.held)
}

// hold sets the module of a file; no code = the file was removed.
func (f *folder) hold(name string, m heldModule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[name] = m; m.code == nil {
		delete(f.held, name)
	}
}

// refusals returns the rows of the plugin list for refused files.
func (f *folder) refusals() (rows []admin.Plugin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(f.refused)) {
		rows = append(rows, admin.Plugin{Name: strings.TrimSuffix(file, ".wasm"), Source: fromFolder, Roles: []string{},
			State:  "refused",
			Reason: f.refused[file].Error(), Versions: []plugstore.Version{}})
	}
	return rows
}

// look scans the folder and returns the digests of its modules, by file.
func (f *folder) look(now time.Time) (map[string][sha256.Size]byte, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := moduleFiles(root)
	if err != nil {
		return nil, err
	}
	out := map[string][sha256.Size]byte{}
	for _, name := range files {
		out[name] = f.sum(root, name, now)
	}
	maps.DeleteFunc(f.stats, func(name string, _ folderFile) bool { _, there := out[name]; return !there })
	return out, nil
}

// moduleFiles lists the files that end in .wasm and are not hidden, as copies of editors
// are.
func moduleFiles(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return filepath.Ext(n) != ".wasm" ||
			strings.HasPrefix(n, ".")
	})
	if len(names) > maxFolderFiles {
		return nil, fmt.Errorf("%s: %d modules, at most %d", root.Name(), len(names), maxFolderFiles)
	}
	return names, nil
}

// sum returns the digest of a file's contents; one that cannot be a module has
// the digest of the reason. A file that did not change is not read again.
func (f *folder) sum(root *os.Root, name string, now time.Time) [sha256.Size]byte {
	st, err := root.Stat(name)
	if s, ok := f.stats[name]; ok && err == nil && s.fault == nil && s.size == st.Size() &&
		s.changed.Equal(st.ModTime()) && s.read.Sub(s.changed) > settled {
		return s.sum
	}
	code, err := readIn(root, name)
	s := folderFile{fault: err}
	if s.sum = sha256.Sum256(code); err != nil {
		s.sum = sha256.Sum256([]byte("fault: " + err.Error()))
	} else if st != nil {
		s.size, s.changed, s.read = st.Size(), st.ModTime(), now
	}
	f.stats[name] = s
	return s.sum
}

// readIn reads a module of the folder. A link that leads out of it is refused.
func readIn(root *os.Root, name string) ([]byte, error) {
	if plugin := strings.TrimSuffix(name, ".wasm"); !plugstore.ValidName(plugin) {
		return nil, fmt.Errorf("invalid plugin name %.80q: want letters, digits, . _ and -", plugin)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	code, err := io.ReadAll(io.LimitReader(file, plugstore.MaxCodeBytes+1))
	if err == nil && len(code) > plugstore.MaxCodeBytes {
		err = fmt.Errorf("%s: more than %d bytes", name, plugstore.MaxCodeBytes)
	}
	if err != nil {
		return nil, err
	}
	return code, nil
}

// due returns the files whose state is not in force yet, removed ones first. With
// settle it ignores files that changed since the last scan.
func (f *folder) due(now map[string][sha256.Size]byte, cfg *config.Config, settle bool) (files []string) {
	all := maps.Clone(now)
	for name := range f.tried {
		if _, there := now[name]; !there {
			all[name] = [sha256.Size]byte{}
		}
	}
	for name, sum := range all {
		t := f.tried[name]
		if settle && f.last[name] != sum || t.sum == sum && (!t.refused || t.cfg == cfg) {
			continue
		}
		files = append(files, name)
	}
	slices.SortFunc(files, func(a, b string) int {
		_, thereA := now[a]
		_, thereB := now[b]
		if thereA != thereB {
			if thereA {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	f.last = now
	return files
}

// watchFolder scans the folder until ctx ends.
func (m *Manager) watchFolder(ctx context.Context) error {
	if m.folder.dir == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	t := time.NewTicker(folderEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			m.LookFolder(true)
		}
	}
}

// LookFolder puts in force what changed in the folder. A file that is refused
// leaves the previous module in force; it is reported and counted once, and tried again
// when it or the configuration changes. So is a folder that cannot be read. With settle
// two consecutive calls must agree. It must not be called while Run runs.
func (m *Manager) LookFolder(settle bool) {
	f := m.folder
	if f.dir == "" {
		return
	}
	now, err := f.look(m.now())
	if err != nil {
		if s := err.Error(); s != f.trouble {
			f.trouble = s
			m.failed(fmt.Errorf("plugin_dir: %w", err))
		}
		return
	}
	f.trouble = ""
	set, _, release := m.rules.Current()
	cfg := set.cfg
	release()
	for _, file := range f.due(now, cfg, settle) {
		sum, there := now[file]
		err := m.takeFile(file, there, sum)
		if errors.Is(err, errFileChanges) {
			continue
		}
		f.tried[file] = triedFile{sum, err != nil, cfg}
		if !there && err == nil {
			delete(f.tried, file)
		}
		f.mu.Lock()
		if delete(f.refused, file); err != nil {
			f.refused[file] = err
		}
		f.mu.Unlock()
		if err != nil {
			m.failed(fmt.Errorf("plugin_dir: %s: %w", file, err))
		}
	}
}

// errFileChanges is returned if a file changed since the scan.
var errFileChanges = errors.New("plugins: file is changing")

// takeFile puts a file of the folder in force, or the next module of the plugin if the
// file was removed. On error nothing has changed.
func (m *Manager) takeFile(file string, there bool, sum [sha256.Size]byte) error {
	f, name := m.folder, strings.TrimSuffix(file, ".wasm")
	var held heldModule
	if there {
		code, err := f.open(file, sum)
		if err != nil {
			return err
		}
		tried, err := m.try(context.Background(), name, fromFolder, "plugin_dir", code)
		if err != nil {
			return fmt.Errorf("plugin %s (%s): %w", name, fromFolder, err)
		}
		defer m.table.release(tried) // after the rules hold it
		held = heldModule{code, tried[0].Has(wasm.Score)}
	} else if f.code(name) == nil {
		return nil
	}
	m.change.Lock()
	defer m.change.Unlock()
	set, revision, err := m.rules.Apply(&Change{name: name, folder: true, code: held.code, scores: held.scores,
		commit: func() error {
			f.hold(name, held)
			return nil
		}})
	if err != nil {
		return err
	}
	used, _ := set.uses(name)
	m.note("plugin:activate", "plugin/"+name, nil, "source", "plugin_dir", "there", strconv.FormatBool(there), "revision",
		strconv.FormatUint(revision, 10))
	m.log.Info("plugin_dir in force", "plugin", name, "there", there, "revision", revision, "used", used)
	return nil
}

// open returns the module in a file, or errFileChanges if its digest is not sum.
func (f *folder) open(file string, sum [sha256.Size]byte) ([]byte, error) {
	if fault := f.stats[file].fault; fault != nil {
		return nil, fault
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	code, err := readIn(root, file)
	if err != nil || sha256.Sum256(code) != sum {
		return nil, errFileChanges
	}
	return code, nil
}

// withFolder returns a profile as it is placed by: the default one, if it names no
// scorers, has the folder's scorers that no profile names instead of the default
// cost, so that a saved file is used without configuration.
func (pl *plan) withFolder(number int) (*config.Profile, error) {
	cfg := pl.cfg
	p := &cfg.Profiles[number]
	if number != 0 || !p.DefaultScorers {
		return p, nil
	}
	named := map[string]bool{}
	for i := range cfg.Profiles {
		q := &cfg.Profiles[i]
		for i := range q.Scorers {
			named[q.Scorers[i].Plugin] = named[q.Scorers[i].Plugin] || !q.DefaultScorers
		}
		for _, name := range append([]string{q.Picker}, q.Filters...) {
			named[name] = true
		}
	}
	held := pl.folder.modules()
	if c := pl.change; c != nil && c.folder {
		held[c.name] = heldModule{c.code, c.scores}
	}
	out, scorers := *p, []config.Scorer(nil)
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if held[name].scores && !named[name] {
			scorers = append(scorers, config.Scorer{Plugin: name, Weight: 1})
		}
	}
	if n := len(scorers); n > config.MaxUses {
		return nil, fmt.Errorf("%d scorers in plugin_dir, at most %d", n, config.MaxUses)
	} else if n > 0 {
		out.Scorers, out.DefaultScorers = scorers, false
	}
	return &out, nil
}
