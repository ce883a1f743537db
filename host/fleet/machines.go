package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
)

// MachineNames returns the drivers' names of a pool's machines, by URL.
func (f *Fleet) MachineNames(pool string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]string, len(f.machines[pool]))
	for id, m := range f.machines[pool] {
		out[m.URL] = id
	}
	return out
}

// AddMachines makes machines endpoints of a pool. Their URLs are as
// [endpoint.ParseURL] returns them. Machines for which there is no room are left
// out and named in the error; the others are in force.
func (f *Fleet) AddMachines(pool string, machines []autoscale.Machine) error {
	return f.changeMachines(pool, func(had map[string]autoscale.Machine) {
		for _, m := range machines {
			had[m.ID] = m
		}
	})
}

// RemoveMachine takes a machine out, by its driver's name.
func (f *Fleet) RemoveMachine(pool, id string) {
	err := f.changeMachines(pool, func(had map[string]autoscale.Machine) { delete(had, id) })
	if err != nil {
		f.cfg.Log.Error("endpoints ignored", "pool", pool, "err", err)
	}
}

func (f *Fleet) changeMachines(pool string, change func(map[string]autoscale.Machine)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(f.machines[pool])
	if next == nil {
		next = map[string]autoscale.Machine{}
	}
	change(next)
	f.machines[pool] = next
	full := fullError(f.reconcileLocked(), pool)
	if full != nil { // what does not fit must not take the place of what comes next
		maps.DeleteFunc(next, func(_ string, m autoscale.Machine) bool { return slices.Contains(full.urls, m.URL) })
		return full
	}
	return nil
}

// errFull names endpoints for which there is no room.
type errFull struct{ urls []string }

// Error names the first few.
func (e *errFull) Error() string {
	const shown = 8
	return fmt.Sprintf("fleet: no room for %d endpoints, the router serves at most %d: %s",
		len(e.urls), config.MaxEndpoints, strings.Join(e.urls[:min(len(e.urls), shown)], " "))
}

// fullError returns an error for those of a pool that were left out, nil if none
// was.
func fullError(left []target, pool string) *errFull {
	var urls []string
	for _, t := range left {
		if t.key.pool == pool {
			urls = append(urls, t.key.url)
		}
	}
	if urls == nil {
		return nil
	}
	return &errFull{urls}
}
