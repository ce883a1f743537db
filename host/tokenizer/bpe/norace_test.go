//go:build !race

package bpe_test

// share divides the number of random documents under the race detector.
const share = 1
