//go:build !race

package bpe_test

// share divides the number of random documents; race_test.go has the other value.
const share = 1
