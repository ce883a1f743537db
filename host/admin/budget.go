package admin

import (
	"sync"
	"time"
)

// Refusals that are recorded per minute. Each waits for the disk, and anyone who
// reaches the listener can cause them: unknown senders must not fill the disk, nor
// use up the budget of known ones.
const (
	strangersPerMinute = 60
	knownPerMinute     = 600
)

// budget bounds events per minute and counts those that were dropped.
type budget struct {
	limit int

	mu      sync.Mutex // guards the fields below
	minute  int64
	used    int
	dropped uint64
}

// take reports whether there is budget left, and how many events were dropped since
// the last one that was taken.
func (b *budget) take(now time.Time) (ok bool, dropped uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := now.Unix() / 60; m != b.minute {
		b.minute, b.used = m, 0
	}
	if b.used >= b.limit {
		b.dropped++
		return false, 0
	}
	b.used++
	dropped, b.dropped = b.dropped, 0
	return true, dropped
}
