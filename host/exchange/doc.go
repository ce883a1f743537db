// Package exchange has the types that the data path and the scheduler share about
// one exchange with an engine: its target and limits ([Target], [Timeouts]) and how
// it ended ([Outcome], [End]). Neither imports the other, and no field is copied
// between two definitions.
package exchange
