package endpoint

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ErrURL is wrapped by the errors of ParseURL.
var ErrURL = errors.New("invalid endpoint URL")

// ParseURL reads the base URL of an endpoint, http://host:port or https://host:port.
// The result has only a scheme, a host and a port from 1 to 65535; a slash at the end of s is
// left out. The text of its error says what is wrong and names s.
func ParseURL(s string) (*url.URL, error) {
	fault := func(want string) error { return fmt.Errorf("%w %.100q: want %s", ErrURL, s, want) }
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, fault("a URL such as http://10.0.0.1:8000")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fault("http:// or https://")
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.User != nil || u.Fragment != "":
		return nil, fault("only scheme, host and port")
	case u.String() != u.Scheme+"://"+u.Host: // a name with bytes that a URL escapes, or a zone
		return nil, fault("a host name or an IP address")
	case u.Port() == "":
		return nil, fault("a port such as " + u.Scheme + "://" + u.Host + ":8000")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return nil, fault("a port from 1 to 65535")
	}
	return u, nil
}
