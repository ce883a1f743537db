package endpoint

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestLoad_tenantWork(t *testing.T) {
	now := time.Now()
	l := newLoad()
	check := func(tenant string, wantOwn, wantAll float32) {
		t.Helper()
		if own, all := l.TenantWork(tenant, now); own != wantOwn || all != wantAll {
			t.Errorf("%s: got %v of %v, want %v of %v", tenant, own, all, wantOwn, wantAll)
		}
	}
	check("a", 0, 0)
	l.Worked("a", 800, now)
	c := l.Charge("b", 100, 0)
	check("a", 800, 900)
	check("b", 100, 900)
	now = now.Add(90 * time.Second) // one half-life and a half
	check("a", 400, 500)
	now = now.Add(30 * time.Second)
	check("a", 200, 300)
	c.Release()
	l.Worked("b", 100, now)
	check("b", 100, 300)
	now = now.Add(24 * time.Hour)
	check("b", 0, 0)
	for i := range 2 * maxShares {
		l.Worked(fmt.Sprint("t", i), 10, now)
	}
	if n := len(l.recent.own); n != maxShares {
		t.Errorf("got %d tenants counted, want %d", n, maxShares)
	}
	check("absent", 0, 20*maxShares)
}

func TestLoad_concentration(t *testing.T) {
	now := time.Now()
	l := newLoad()
	check := func(wantMost, wantHHI float64) {
		t.Helper()
		if most, hhi := l.Concentration(now); most != wantMost || hhi != wantHHI {
			t.Errorf("got %v, %v, want %v, %v", most, hhi, wantMost, wantHHI)
		}
	}
	check(0, 0)
	l.Worked("a", 500, now)
	check(1, 1)
	l.Worked("b", 500, now)
	check(0.5, 0.5)
	l.Worked("c", 1000, now)
	check(0.5, 0.375)
	now = now.Add(24 * time.Hour)
	check(0, 0)
}

func TestLoad_tenantWork_stress(t *testing.T) {
	l, now := newLoad(), time.Now()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			name := fmt.Sprint(g)
			for i := range 2000 {
				l.Worked(name, 1, now)
				if own, all := l.TenantWork(name, now); own != float32(i+1) || all < own {
					t.Errorf("%s: got %v of %v, want %d", name, own, all, i+1)
					return
				}
			}
		})
	}
	wg.Wait()
	if _, all := l.TenantWork("", now); all != 8000 {
		t.Errorf("got %v in all, want 8000", all)
	}
}
