package simengine

import (
	"context"
	"time"
)

// Clock is the time an [Engine] runs by. It is safe for concurrent use.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or early when ctx ends.
	Sleep(ctx context.Context, d time.Duration)
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
