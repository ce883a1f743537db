package plugins

import (
	"errors"
	"time"
)

// restFactor is how many times as long as a call off the request path took its plugin
// is not called again: at most a tenth of one processor goes to each plugin, and a
// plugin that uses up its fuel in every call, half a second of arithmetic, keeps
// neither requests nor other plugins waiting for long.
const restFactor = 9

// restFree is the time of a call after which there is no rest: what a batch of
// outcomes costs an ordinary plugin.
const restFree = time.Millisecond

// errResting reports that a plugin is not called because of how long its last call took.
var errResting = errors.New("plugins: suspended briefly after a long call")

// rest spaces the calls of a plugin out by how long they take. It belongs to one
// goroutine; the zero rest is ready.
type rest struct{ until time.Time }

// call calls f, or returns errResting.
func (r *rest) call(now func() time.Time, f func() error) error {
	began := now()
	if began.Before(r.until) {
		return errResting
	}
	err := f()
	if took := now().Sub(began); took > restFree {
		r.until = began.Add((1 + restFactor) * took)
	}
	return err
}
