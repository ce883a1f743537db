package elastic

// Engine is the timing and the size of one engine.
type Engine struct {
	StepMs    float64 // c0: of every step
	FloorMs   float64 // Tw: of the weights, read once a step
	TokenMs   float64 // a: per token computed
	ContextMs float64 // b: per token of context attended
	SquareMs  float64 // q: per pair of tokens within a prompt
	KVTokens  int     // KV memory
	Budget    int     // tokens of a step
	Sequences int     // requests at once
}

// H100x8B is Llama-3.1-8B on one H100: 7.8 ms a step, 28–30 µs a token
// (LLMServingSim's layer profiles); KV memory three times its 421k tokens, as
// with a cache in host memory.
var H100x8B = Engine{
	StepMs: 2, FloorMs: 7.8, TokenMs: 0.029, ContextMs: 0.049e-3, SquareMs: 1.06e-6, KVTokens: 3 * 421_000, Budget: 8192,
	Sequences: 256,
}

// prefillMs is the time a prompt of n new tokens behind start cached ones takes
// alone.
func (e *Engine) prefillMs(n, start int) float64 {
	return e.TokenMs*float64(n) + e.SquareMs*float64(n)*(float64(start)+float64(n)/2)
}

// answerMs is the share of an engine's time that an answer of n tokens to a
// prompt takes, when 24 requests decode together: the floor is divided, the
// context is not.
func (e *Engine) answerMs(n float64, prompt int) float64 {
	return n * (e.ContextMs*float64(prompt) + e.FloorMs/decodeTogether)
}

const decodeTogether = 24
