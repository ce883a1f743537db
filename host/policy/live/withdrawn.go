package live

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/policy"
)

// tenantFolder holds the tenants in the data of the policy that ships with the router:
// an object with "enabled" for each.
const tenantFolder = "tenants"

// maxTenantFile bounds one file of tenants, as package policy does.
const maxTenantFile = 16 << 20

// Withdrawn returns the tenants that the policy in force enables and that the data in
// the directories of c disables or does not contain, even if the rest of the
// directories is invalid. If a file of tenants cannot be read, tenants that are in none
// of the other files count as enabled. asked is as in FromDir.
func (k *Keeper) Withdrawn(c *config.Policy, base InForce, asked bool) []string {
	if base.Snapshot == nil || c.Dir == "" {
		return nil
	}
	if over := k.over(); !asked && over != "" && over == contents(policy.ReadDir(c.Dir, c.DataDir)) {
		return nil
	}
	dir := c.DataDir
	if dir == "" {
		dir = filepath.Join(c.Dir, "data")
	}
	now, whole := readTenants(os.DirFS(dir))
	if len(now) == 0 && !whole {
		return nil
	}
	var out []string
	for name, enabled := range tenantsOf(base.Snapshot.Source()) {
		is, there := now[name]
		if enabled && (there && !is || !there && whole) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// readTenants reads which tenants are enabled from the files below the tenants'
// folder. whole is false if one of them could not be read.
func readTenants(data fs.FS) (enabled map[string]bool, whole bool) {
	enabled, whole = map[string]bool{}, true
	err := fs.WalkDir(data, tenantFolder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || path.Ext(name) != ".json" {
			return nil
		}
		st, err := fs.Stat(data, name)
		if err != nil || !st.Mode().IsRegular() || st.Size() > maxTenantFile { // a pipe would block
			whole = false
			return nil
		}
		b, err := fs.ReadFile(data, name)
		if err != nil || !addTenants(enabled, b) {
			whole = false
		}
		return nil
	})
	return enabled, whole && err == nil
}

// tenantsOf returns which tenants a policy's data enables.
func tenantsOf(src *policy.Source) map[string]bool {
	out := map[string]bool{}
	for name, text := range src.Files() {
		if strings.HasPrefix(name, "data/"+tenantFolder+"/") {
			addTenants(out, text)
		}
	}
	return out
}

// addTenants adds the tenants of one file. It returns false if the file, or a tenant in
// it, is malformed.
func addTenants(enabled map[string]bool, text []byte) bool {
	var file map[string]json.RawMessage
	if json.Unmarshal(text, &file) != nil {
		return false
	}
	whole := true
	for name, text := range file {
		var t struct {
			Enabled bool `json:"enabled"`
		}
		if json.Unmarshal(text, &t) != nil {
			whole = false
			continue
		}
		enabled[name] = t.Enabled
	}
	return whole
}
