// Package exchange holds what the data path and the scheduler tell each other
// about one exchange with an engine: where it goes and within which limits
// ([Target], [Timeouts]), and how it ended ([Outcome], [End]). It is at ground
// level so that neither has to know the other, and so that no field is copied
// between two definitions of the same thing.
package exchange
