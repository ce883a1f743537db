package exchange

// End is how a request ended. The zero value means that the end is not known; it
// never means success.
type End uint8

const (
	EndUnset          End = iota // not known
	EndComplete                  // the whole answer was forwarded, with any status
	EndClientGone                // the client left
	EndShutdown                  // cut at the end of the drain
	EndConnect                   // no connection to the engine
	EndConnectTimeout            // no connection within Timeouts.Connect
	EndSendTimeout               // the engine did not take the request within Timeouts.Send
	EndNoAnswer                  // the engine closed the connection without one byte
	EndMalformed                 // the answer is not HTTP
	EndDied                      // the engine closed the connection before the end of its answer
	EndFirstByte                 // no byte within Timeouts.FirstByte
	EndBetweenEvents             // no byte within Timeouts.BetweenEvents
	EndTotalTimeout              // not over within Timeouts.Total
	EndRewrite                   // the body cannot be rewritten for the target: nothing was sent
	EndInternal                  // a fault of the router
	NumEnds
)

// Fault is who caused an end.
type Fault uint8

const (
	FaultUnset  Fault = iota
	FaultStatus       // the status of the answer decides
	FaultClient       // the client
	FaultEngine       // the engine
	FaultRouter       // the router
)

// ends has one row for each End.
var ends = [NumEnds]struct {
	name  string // in metrics, logs, explain and error bodies
	fault Fault
}{
	EndUnset:          {"unset", FaultRouter},
	EndComplete:       {"complete", FaultStatus},
	EndClientGone:     {"client_gone", FaultClient},
	EndShutdown:       {"shutdown", FaultRouter},
	EndConnect:        {"connect", FaultEngine},
	EndConnectTimeout: {"timeout_connect", FaultEngine},
	EndSendTimeout:    {"timeout_send", FaultEngine},
	EndNoAnswer:       {"upstream_no_answer", FaultEngine},
	EndMalformed:      {"upstream_malformed", FaultEngine},
	EndDied:           {"upstream_died", FaultEngine},
	EndFirstByte:      {"timeout_first_byte", FaultEngine},
	EndBetweenEvents:  {"timeout_between", FaultEngine},
	EndTotalTimeout:   {"timeout_total", FaultEngine},
	EndRewrite:        {"rewrite", FaultRouter},
	EndInternal:       {"internal", FaultRouter},
}

// row returns the row of e, that of EndUnset if e is out of range.
func (e End) row() int {
	if e < NumEnds {
		return int(e)
	}
	return int(EndUnset)
}

// String returns the name of the end in metrics, logs, explain and error bodies.
func (e End) String() string { return ends[e.row()].name }

// Fault returns who caused the end.
func (e End) Fault() Fault { return ends[e.row()].fault }

// Cause returns the name of the end as the reason why the client did not receive
// the whole answer; "" for EndComplete.
func (e End) Cause() string {
	if e == EndComplete {
		return ""
	}
	return e.String()
}
