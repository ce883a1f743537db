//go:build race

package bpe_test

// share divides the number of random documents where the race detector, which
// makes everything some ten times slower, has nothing to find.
const share = 4
