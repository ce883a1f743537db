package endpoint

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// filled returns a store of n ready endpoints.
func filled(t *testing.T, n int) *Store {
	t.Helper()
	s := NewStore()
	infos := make([]Info, n)
	for i := range infos {
		infos[i] = Info{Addr: fmt.Sprintf("10.0.%d.%d:8000", i/256, i%256), Pool: "main"}
	}
	if _, err := s.Replace(nil, infos); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.Update(ID(i), func(st *State) { st.Ready = true })
	}
	return s
}

// Figures of a large store are seen within figuresPeriod, anything else at once.
func TestStore_Update_figures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := filled(t, promptSlots+1)
		s.Update(3, func(st *State) { st.Running = 7 })
		if got := s.Load().Running[3]; got != 0 {
			t.Errorf("a figure was published at once: %d", got)
		}
		time.Sleep(figuresPeriod)
		synctest.Wait()
		if got := s.Load().Running[3]; got != 7 {
			t.Errorf("got %d running after the period, want 7", got)
		}
		s.Update(4, func(st *State) { st.Waiting = 5 })
		s.Update(3, func(st *State) { st.Draining = true })
		if v := s.Load(); v.Ready.Has(3) || v.Waiting[4] != 5 {
			t.Error("an endpoint that drains is still ready, or an earlier figure is missing")
		}
		time.Sleep(figuresPeriod)
		small := filled(t, promptSlots)
		small.Update(3, func(st *State) { st.Running = 7 })
		if got := small.Load().Running[3]; got != 7 {
			t.Errorf("a small store: got %d running, want 7 at once", got)
		}
	})
}

// A report of figures costs about as much memory among a thousand endpoints as among
// four.
func TestStore_Update_cost(t *testing.T) {
	perUpdate := func(n int) (bytes uint64) {
		synctest.Test(t, func(t *testing.T) {
			s := filled(t, n)
			time.Sleep(time.Second)
			const seconds = 4
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for k := range seconds * n { // each endpoint reports once a second
				s.Update(ID(k%n), func(st *State) { st.Running, st.ScrapedAt = uint32(k), time.Now() })
				time.Sleep(time.Second / time.Duration(n))
			}
			runtime.ReadMemStats(&after)
			bytes = (after.TotalAlloc - before.TotalAlloc) / uint64(seconds*n)
			time.Sleep(time.Second)
		})
		return bytes
	}
	few, many := perUpdate(4), perUpdate(MaxEndpoints)
	t.Logf("%d bytes an update of 4 endpoints, %d of %d", few, many, MaxEndpoints)
	if many > 3*few {
		t.Errorf("an update costs %d bytes among %d endpoints, %d among 4", many, MaxEndpoints, few)
	}
}
