// Package sdk runs the SDKs' examples and test guests through the checks a
// plugin must pass.
package sdk
