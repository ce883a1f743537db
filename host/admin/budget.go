package admin

import (
	"sync"
	"time"
)

// Refusals that are recorded a minute. Each is a write that waits for the disk,
// and whoever reaches the listener can cause them: strangers may not fill the
// disk, and may not use up what is left for senders that are known.
const (
	strangersPerMinute = 60
	knownPerMinute     = 600
)

// budget bounds what happens in a minute and counts what was left out.
type budget struct {
	limit int

	mu      sync.Mutex // guards the fields below
	minute  int64
	used    int
	dropped uint64
}

// take reports whether there is budget left, and how many were left out since
// one was taken last.
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
