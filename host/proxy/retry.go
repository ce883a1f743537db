package proxy

import "github.com/kvasir-router/kvasir/host/exchange"

// retryReason is why a request was sent again, to the same engine or another.
type retryReason uint8

const (
	retryUnset          retryReason = iota // no retry
	retryConnect                           // no connection to the engine
	retryConnectTimeout                    // none in time
	retryNoAnswer                          // the engine closed the connection without one byte
	retryRewrite                           // the body cannot be what the target needs
	retryOverload                          // the engine answered 429 or 503
	retryStale                             // the engine closed the connection as it was reused
	retryEjected                           // the engine's health check failed while it had sent no byte
	numRetryReasons
)

// retryNames are the reasons in metrics; those of an End have its name.
var retryNames = [numRetryReasons]string{
	retryUnset:          "unset",
	retryConnect:        exchange.EndConnect.String(),
	retryConnectTimeout: exchange.EndConnectTimeout.String(),
	retryNoAnswer:       exchange.EndNoAnswer.String(),
	retryRewrite:        exchange.EndRewrite.String(),
	retryOverload:       "overload",
	retryStale:          "stale",
	retryEjected:        "ejected",
}

// String returns the reason in metrics.
func (r retryReason) String() string { return retryNames[r] }

// retryReasonOf returns the reason for which an attempt that failed with err may
// be made again, retryUnset if there is none.
func retryReasonOf(err error) retryReason {
	e, ok := err.(attemptError)
	if !ok {
		return retryUnset
	}
	switch exchange.End(e) {
	case exchange.EndConnect:
		return retryConnect
	case exchange.EndConnectTimeout:
		return retryConnectTimeout
	case exchange.EndNoAnswer:
		return retryNoAnswer
	case exchange.EndRewrite:
		return retryRewrite
	}
	return retryUnset
}
