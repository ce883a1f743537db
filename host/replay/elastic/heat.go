package elastic

import "math"

// heatMs is the time in which heat decays to a third: prompts of five minutes ago
// are rarely repeated.
const heatMs = 5 * 60_000

// warm adds tokens computed at the time now to the engine's heat.
func (e *engine) warm(now, tokens float64) {
	e.heat = e.heat*math.Exp((e.heated-now)/heatMs) + tokens
	e.heated = now
}
