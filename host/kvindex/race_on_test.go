//go:build race

package kvindex

// shorter divides the steps of tests that take long under the race detector.
const shorter = 6
