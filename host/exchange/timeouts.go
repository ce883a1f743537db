package exchange

import "time"

// Timeouts are the separate limits of one request. They are separate so that a
// long prefill is not mistaken for a dead engine. Zero means the default
// ([Timeouts.Or] with [DefaultTimeouts]). Tags and comments are those of the
// configuration file, in which a pool has them under "timeouts".
type Timeouts struct {
	// default 2s: longer hides a dead engine, shorter trips over a lost SYN
	Connect time.Duration `yaml:"connect" reload:"live"`
	// without progress while the request is written; default 30s: 64 MiB on a slow link
	Send time.Duration `yaml:"send" reload:"live"`
	// from the request's end to the first byte of the body; default 10m: queueing and
	// prefill of a 100k-token prompt
	FirstByte time.Duration `yaml:"first_byte" reload:"live"`
	// without a byte of the body; default 2m
	BetweenEvents time.Duration `yaml:"between_events" reload:"live"`
	// of the whole request, from its receipt; default 1h
	Total time.Duration `yaml:"total" reload:"live"`
}

// DefaultTimeouts returns the limits of a request whose pool sets none.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Connect: 2 * time.Second, Send: 30 * time.Second, FirstByte: 10 * time.Minute,
		BetweenEvents: 2 * time.Minute, Total: time.Hour,
	}
}

// Or returns t with the limits of d where t sets none.
func (t Timeouts) Or(d *Timeouts) Timeouts {
	pick := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	pick(&t.Connect, d.Connect)
	pick(&t.Send, d.Send)
	pick(&t.FirstByte, d.FirstByte)
	pick(&t.BetweenEvents, d.BetweenEvents)
	pick(&t.Total, d.Total)
	return t
}
