package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// retryReason is why a request was sent again, to the same engine or another.
type retryReason uint8

const (
	retryUnset          retryReason = iota // no retry
	retryConnect                           // no connection to the engine
	retryConnectTimeout                    // none in time
	retryUnread                            // the connection was closed before the engine read a byte
	retryGone                              // closed without an answer, and the engine's process has ended
	retryEjected                           // the engine's health check failed while it had sent no byte
	retryRewrite                           // the body cannot be what the target needs
	retryOverload                          // the engine answered 429 or 503
	retryFailed                            // the engine answered 500
	retryGateway                           // the engine, or a proxy before it, answered 502 or 504
	numRetryReasons
)

// retries has what a reason permits. All reasons share one allowance:
// Config.MaxAttempts.
var retries = [numRetryReasons]struct {
	name string // in metrics; that of an End, if it is one
	// free: the attempt loaded no engine, or what it loaded is lost. Others draw on the
	// retry budget.
	free bool
	// once: the request may be sent again although its operation must not be computed
	// twice.
	once bool
}{
	retryUnset:          {name: "unset"},
	retryConnect:        {exchange.EndConnect.String(), true, true},
	retryConnectTimeout: {exchange.EndConnectTimeout.String(), true, true},
	retryUnread:         {"unread", true, true},
	retryGone:           {"gone", true, false},
	retryEjected:        {"ejected", true, false},
	retryRewrite:        {exchange.EndRewrite.String(), false, true},
	retryOverload:       {"overload", false, true},
	retryFailed:         {"failed", false, false},
	retryGateway:        {"gateway", false, false},
}

// String returns the reason in metrics.
func (r retryReason) String() string { return retries[r].name }

// reasonToMove returns why the request may be sent again after an attempt that returned
// err or the head of an answer in resp; retryUnset if there is no reason. status is that
// of the answer, 0 for none.
func (s *stream) reasonToMove(err error, resp *fasthttp.Response) (r retryReason, status int) {
	if err == nil {
		status = resp.StatusCode()
		return reasonOfStatus(status), status
	}
	if err == errUnread {
		return retryUnread, 0
	}
	switch e, _ := err.(attemptError); exchange.End(e) {
	case exchange.EndConnect:
		return retryConnect, 0
	case exchange.EndConnectTimeout:
		return retryConnectTimeout, 0
	case exchange.EndRewrite:
		if s.out.refusal == nil { // not the client's fault
			return retryRewrite, 0
		}
	case exchange.EndNoAnswer:
		if s.mayMove() && s.engineGone() {
			return retryGone, 0
		}
	}
	return retryUnset, 0
}

// reasonOfStatus returns why a request may be sent again after an answer.
func reasonOfStatus(status int) retryReason {
	switch status {
	case fasthttp.StatusTooManyRequests, fasthttp.StatusServiceUnavailable:
		return retryOverload
	case fasthttp.StatusInternalServerError:
		return retryFailed
	case fasthttp.StatusBadGateway, fasthttp.StatusGatewayTimeout:
		return retryGateway
	}
	return retryUnset
}

// moveOn reports whether the request is sent again, and selects its target. No byte of
// an answer has reached the client.
//
// A request that an engine began to compute is given up at most once, whether the engine
// ended or was ejected, and a 500 is retried once: a prompt that makes engines fail
// reaches two of them.
func (s *stream) moveOn(reason retryReason, status int) bool {
	o, row := &s.out, &retries[reason]
	if reason == retryUnset || o.attempts >= s.p.cfg.MaxAttempts || s.req.API.Op.Once() && !row.once {
		return false
	}
	if reason == retryFailed && o.failed || reason == retryGone && o.moved {
		return false
	}
	if reason == retryUnread && s.up.reused {
		o.fresh = true // the engine, which has the prefix, is not at fault
		return true
	}
	if !row.free && !s.p.budget.spend() {
		return false
	}
	if !s.pl.Next(status) {
		if !row.free {
			s.p.budget.refund()
		}
		return false
	}
	o.failed = o.failed || reason == retryFailed
	o.moved = o.moved || reason == retryGone
	return true
}

// mayMove reports whether a request that an engine began to compute may leave it.
func (s *stream) mayMove() bool {
	o := &s.out
	return !o.moved && o.attempts < s.p.cfg.MaxAttempts && !s.req.API.Op.Once()
}

// goneWithin bounds the connection that shows whether an engine's process has ended: a
// refusal comes within the round-trip time.
const goneWithin = time.Second

// engineGone reports whether the engine refuses connections: its process has ended, and
// what it computed is lost. An engine that merely closed a connection accepts others.
func (s *stream) engineGone() bool {
	ctx, cancel := context.WithTimeout(context.Background(), min(goneWithin, s.out.timeouts.Connect))
	defer cancel()
	if !s.dialing(cancel) {
		return false
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.pl.Target().Addr)
	s.dialing(nil)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func (s *stream) retried(reason retryReason) {
	s.acct.retries++
	s.p.count.retries[reason].Add(1)
}
