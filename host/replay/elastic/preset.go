package elastic

import "github.com/kvasir-router/kvasir/host/replay/virtual"

// H100x8B is Llama-3.1-8B on one H100 with three times its KV memory, as with a cache
// in host memory.
var H100x8B = func() virtual.Engine {
	e, err := virtual.Preset("8b-h100", 1)
	if err != nil {
		panic("BUG: elastic: " + err.Error())
	}
	e.CacheTokens *= 3
	return e
}()

// prefillMs is the time a prompt of n new tokens behind start cached ones takes
// alone.
func prefillMs(e *virtual.Engine, n, start int) float64 {
	return e.Timing.A*float64(n) + e.Timing.Q*float64(n)*(float64(start)+float64(n)/2)
}

// answerMs is the share of an engine's time that an answer of n tokens to a
// prompt takes, when 24 requests decode together: the floor is divided, the
// context is not.
func answerMs(e *virtual.Engine, n float64, prompt int) float64 {
	return n * (e.Timing.B*float64(prompt) + e.Timing.Tw/decodeTogether)
}

const decodeTogether = 24
