//go:build race

package bpe_test

// share divides the number of random documents. The race detector makes these
// tests about ten times slower, and they have no concurrency to check.
const share = 4
