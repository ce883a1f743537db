// Package discovery finds the endpoints of a pool that the configuration does
// not list: in a watched file, or in DNS.
//
// A source tells all endpoints there are. When it cannot be asked, or says what
// makes no sense, the endpoints it told last stay: a broken file or an absent name
// server must not take a fleet out of service.
package discovery
