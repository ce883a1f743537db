package host

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

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// fromFolder is the source of a module in the watched folder.
const fromFolder = "folder"

// folderEvery is how often the watched folder is looked at. What two looks in a
// row find is put in force, so that a file is not taken while it is written: a
// save counts within twice this and its time of loading, together less than a
// second for a small module. A look costs a stat call per file.
const folderEvery = 150 * time.Millisecond

// maxFolderFiles bounds the modules of the folder: their code is kept in memory,
// because a file may turn bad while its module is in force.
const maxFolderFiles = 32

// folder is the watched folder: NAME.wasm in it is the module of plugin NAME
// while it lies there.
type folder struct {
	dir string // "" = none

	held map[string]heldModule // by plugin; guarded by Host.reloadMu

	// Of the one goroutine that looks.
	stats   map[string]folderFile        // by file
	last    map[string][sha256.Size]byte // contents at the look before, by file
	tried   map[string]triedFile         // by file
	trouble string                       // what was said last of the folder as a whole

	mu      sync.Mutex // guards refused
	refused map[string]error
}

// heldModule is what a file of the folder stands for.
type heldModule struct {
	code   []byte
	scores bool // it has the role score
}

// folderFile remembers a file's contents by its size and time of change.
type folderFile struct {
	fileSeen
	fault error // why it cannot be a module, nil if it may be one
}

// triedFile is the last attempt to put a file, or its absence, in force.
type triedFile struct {
	sum     [sha256.Size]byte
	refused bool
	cfg     *config.Config // of the rules it was tried with: others may take it
}

func newFolder(dir string) *folder {
	return &folder{dir: dir, held: map[string]heldModule{}, stats: map[string]folderFile{}, tried: map[string]triedFile{}, refused: map[string]error{}}
}

// code returns the module of a plugin, nil if the folder has none. The caller
// holds Host.reloadMu.
func (f *folder) code(name string) []byte { return f.held[name].code }

// look returns the digests of the modules' files, by file.
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

// moduleFiles lists what ends in .wasm and is not hidden, as editors' copies are.
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
	names = slices.DeleteFunc(names, func(n string) bool { return filepath.Ext(n) != ".wasm" || strings.HasPrefix(n, ".") })
	if len(names) > maxFolderFiles {
		return nil, fmt.Errorf("%s: %d modules, at most %d", root.Name(), len(names), maxFolderFiles)
	}
	return names, nil
}

// sum returns the digest of a file's contents; one that cannot be a module has
// the digest of the reason. A file that did not change is not read again.
func (f *folder) sum(root *os.Root, name string, now time.Time) [sha256.Size]byte {
	st, err := root.Stat(name)
	if s, ok := f.stats[name]; ok && err == nil && s.fault == nil && s.size == st.Size() && s.changed.Equal(st.ModTime()) && s.read.Sub(s.changed) > settled {
		return s.sum
	}
	code, err := readIn(root, name)
	s := folderFile{fault: err}
	if s.sum = sha256.Sum256(code); err != nil {
		s.sum = sha256.Sum256([]byte("fault: " + err.Error()))
	} else if st != nil {
		s.fileSeen = fileSeen{size: st.Size(), changed: st.ModTime(), read: now, sum: s.sum}
	}
	f.stats[name] = s
	return s.sum
}

// readIn reads a module of the folder. A link that leads out of it is refused.
func readIn(root *os.Root, name string) ([]byte, error) {
	if plugin := strings.TrimSuffix(name, ".wasm"); !plugstore.ValidName(plugin) {
		return nil, fmt.Errorf("%.80q is no plugin's name: want letters, digits, . _ and -", plugin)
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
		return nil, fmt.Errorf("%s is no regular file", name)
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

// due returns the files whose state is to be put in force, those that are gone
// first. settle says that only what the look before found too counts.
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

// watchFolder puts in force what is saved in the watched folder until ctx ends.
func (h *Host) watchFolder(ctx context.Context) error {
	if h.folder.dir == "" {
		return nil
	}
	t := time.NewTicker(folderEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			h.lookFolder(true)
		}
	}
}

// lookFolder puts in force what changed in the folder. A file that is refused
// leaves the module before it in force; it is told and counted once, and tried
// again when it or the configuration changes. So is a folder that cannot be read.
func (h *Host) lookFolder(settle bool) {
	f := h.folder
	now, err := f.look(h.now())
	if err != nil {
		if s := err.Error(); s != f.trouble {
			f.trouble = s
			h.reloadFailed(fmt.Errorf("plugin_dir: %w", err))
		}
		return
	}
	f.trouble = ""
	l := h.rules.Acquire()
	cfg := l.Value().cfg
	l.Release()
	for _, file := range f.due(now, cfg, settle) {
		sum, there := now[file]
		err := h.takeFile(file, there, sum)
		if errors.Is(err, errFileMoves) {
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
			h.reloadFailed(fmt.Errorf("plugin_dir: %s: %w", file, err))
		}
	}
}

// errFileMoves says that a file changed since it was looked at.
var errFileMoves = errors.New("host: file changes")

// takeFile puts a file of the folder in force, or what is behind one that is
// gone. On error nothing has changed.
func (h *Host) takeFile(file string, there bool, sum [sha256.Size]byte) error {
	f, name := h.folder, strings.TrimSuffix(file, ".wasm")
	var code []byte
	if there {
		if fault := f.stats[file].fault; fault != nil {
			return fault
		}
		root, err := os.OpenRoot(f.dir)
		if err != nil {
			return err
		}
		defer root.Close()
		if code, err = readIn(root, file); err != nil || sha256.Sum256(code) != sum {
			return errFileMoves
		}
	}
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	before, was := f.held[name]
	if there {
		m, p, err := h.tryHeldLocked(name, code)
		if err != nil {
			return err
		}
		defer h.plugins.release([]*plugin{p}) // after the rules hold it
		f.held[name] = m
	} else if !was {
		return nil
	} else {
		delete(f.held, name)
	}
	g, err := h.rebuildLocked(nil)
	if err != nil {
		if delete(f.held, name); was {
			f.held[name] = before
		}
		return err
	}
	h.note("plugin:activate", "plugin/"+name, nil, "source", "plugin_dir", "there", strconv.FormatBool(there), "generation", strconv.FormatUint(g.number, 10))
	h.log.Info("plugin folder in force", "plugin", name, "there", there, "generation", g.number,
		"used", slices.ContainsFunc(g.plugins, func(p *plugin) bool { return p.key.name == name }))
	return nil
}

// tryHeldLocked loads a module with the settings of the rules in force. The
// caller holds reloadMu and must release the plugin.
func (h *Host) tryHeldLocked(name string, code []byte) (heldModule, *plugin, error) {
	p, err := h.tryLocked(name, fromFolder, code)
	if err != nil {
		return heldModule{}, nil, fmt.Errorf("plugin %s (%s): %w", name, fromFolder, err)
	}
	return heldModule{code, p.Has(wasm.Score)}, p, nil
}

// withFolder returns a profile as it is placed by: the default one, if it names no
// scorers, has the folder's scorers that no profile names instead of the default
// cost, so that a file saved there is heard without a line of configuration. The caller holds reloadMu.
func (h *Host) withFolder(cfg *config.Config, number int) (*config.Profile, error) {
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
	out, scorers := *p, []config.Scorer(nil)
	for _, name := range slices.Sorted(maps.Keys(h.folder.held)) {
		if h.folder.held[name].scores && !named[name] {
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

// folderAdmin is pluginAdmin that also lists the files of the watched folder
// that were refused, and says when what was pushed stands behind one.
type folderAdmin struct{ pluginAdmin }

// Push implements admin.Plugins.
func (a folderAdmin) Push(ctx context.Context, name string, code []byte, activate bool, who string) (any, error) {
	v, err := a.pluginAdmin.Push(ctx, name, code, activate, who)
	return a.behind(name, v), err
}

// Activate implements admin.Plugins.
func (a folderAdmin) Activate(ctx context.Context, name, digest string) (any, error) {
	v, err := a.pluginAdmin.Activate(ctx, name, digest)
	return a.behind(name, v), err
}

// Rollback implements admin.Plugins.
func (a folderAdmin) Rollback(ctx context.Context, name string) (any, error) {
	v, err := a.pluginAdmin.Rollback(ctx, name)
	return a.behind(name, v), err
}

// behind adds a note to v, what was done with a stored version, if the folder's
// file goes before it.
func (a folderAdmin) behind(name string, v any) any {
	a.h.reloadMu.Lock()
	held := a.h.folder.code(name) != nil
	a.h.reloadMu.Unlock()
	if m, ok := v.(map[string]any); ok && held && m["active"] == true {
		m["used"], m["note"] = false, name+".wasm in plugin_dir goes before it while it lies there"
		a.h.log.Warn("the watched folder goes before the active version of a plugin", "plugin", name)
	}
	return v
}

// Plugins implements admin.Plugins.
func (a folderAdmin) Plugins(ctx context.Context) (any, error) {
	v, err := a.pluginAdmin.Plugins(ctx)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return v, err
	}
	rows, ok := m["plugins"].([]pluginStatus)
	if !ok {
		return v, nil
	}
	f := a.h.folder
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range slices.Sorted(maps.Keys(f.refused)) {
		rows = append(rows, pluginStatus{Name: strings.TrimSuffix(file, ".wasm"), Source: fromFolder, Roles: []string{}, State: "refused",
			Reason: f.refused[file].Error(), Versions: []plugstore.Version{}})
	}
	m["plugins"] = rows
	return m, nil
}
