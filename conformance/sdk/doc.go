// Package sdk runs the checks that a plugin must pass on the SDKs' examples and test
// guests.
package sdk
