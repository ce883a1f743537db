// Package discovery finds the endpoints of a pool that the configuration does
// not list: in a watched file, or in DNS.
//
// A source lists all endpoints that there are. When it fails or its answer is
// invalid, the caller keeps the endpoints of the last answer: a broken file or an
// unreachable name server must not take a fleet out of service.
package discovery
