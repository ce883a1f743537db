package hostmod

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	now := time.Now()
	l := newLimiter(now)
	for i := range logBurst {
		if ok, _ := l.take(now); !ok {
			t.Fatalf("line %d was dropped", i)
		}
	}
	for range 7 {
		if ok, _ := l.take(now); ok {
			t.Fatal("a line above the burst was written")
		}
	}
	if ok, dropped := l.take(now.Add(time.Second)); !ok || dropped != 7 {
		t.Errorf("a second later: %v, %d dropped, want true, 7", ok, dropped)
	}
}

func TestSpaces(t *testing.T) {
	s := NewSpaces(1000)
	a := s.Space("p", 1, false)
	if !a.Set("k", make([]byte, 500)) || a.Set("l", make([]byte, 500)) {
		t.Error("the quota of 1,000 bytes does not hold")
	}
	if !a.Set("k", make([]byte, 900)) || a.Used() != 1+900+entryOverhead {
		t.Errorf("a value in place of another: %d bytes used", a.Used())
	}
	if s.Space("p", 1, false) != a || s.Space("p", 2, false) == a || s.Space("q", 1, false) == a {
		t.Error("a space is for one name and one state version")
	}
	over := s.Space("p", 1, true)
	if _, ok := over.Get("k"); !ok || !over.Delete("k") || over.Delete("k") || !over.Set("n", nil) {
		t.Error("an overlay does not begin as the space")
	}
	if _, ok := a.Get("k"); !ok {
		t.Error("an overlay's deletion reached the space")
	}
	if _, ok := a.Get("n"); ok {
		t.Error("an overlay's write reached the space")
	}
	s.Forget("p", 1)
	if s.Space("p", 1, false) == a {
		t.Error("a forgotten space is still there")
	}
	if x := s.Space("fresh", 1, true); x == s.Space("fresh", 1, false) {
		t.Error("an overlay became the space")
	}
}

func TestSpace_stress(t *testing.T) {
	s := NewSpaces(10_000)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				sp := s.Space("p", 1, i%100 == 99)
				key := fmt.Sprint(w, i%20)
				sp.Set(key, make([]byte, i%200))
				sp.Get(key)
				if i%3 == 0 {
					sp.Delete(key)
				}
			}
		})
	}
	wg.Wait()
	sp := s.Space("p", 1, false)
	used := 0
	for k, v := range sp.m {
		used += len(k) + len(v) + entryOverhead
	}
	if used != sp.Used() || used > 10_000 {
		t.Errorf("%d bytes are counted, %d are there", sp.Used(), used)
	}
}

func TestMetrics(t *testing.T) {
	m := NewMetrics()
	m.report("p", []byte("seen"), 1, true)
	m.report("p", []byte("seen"), 2, true)
	m.report("p", []byte("seen"), -1, true)
	m.report("p", []byte("seen"), 9, false) // a counter stays one
	m.report("p", []byte("rate"), 1.5, false)
	m.report("p", []byte("rate"), 2.5, false)
	for _, bad := range []string{"", "UPPER", "a b", string(make([]byte, 100))} {
		m.report("p", []byte(bad), 1, true)
	}
	m.report("p", []byte("nan"), math.NaN(), false)
	got := m.Snapshot()
	want := []Series{{"p", "rate", 2.5, false}, {"p", "seen", 3, true}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 2 * maxSeries {
		m.report("q", []byte(fmt.Sprintf("s%d", i)), 1, true)
	}
	if n := len(m.Snapshot()) - 2; n != maxSeries {
		t.Errorf("%d series of one plugin, want %d", n, maxSeries)
	}
}
