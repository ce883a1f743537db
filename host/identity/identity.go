// Package identity turns credentials into principals. It is the only source of
// a tenant id.
package identity

// Principal is who asks, from a verified credential only. It is immutable.
type Principal struct {
	Tenant string
	User   string
	Groups []string
	Scopes []string
	Method string // "api_key", "anonymous", …
	KeyID  string // public id of the API key, never the key
}

// Credentials are what a request carried. The slices are valid during the
// call only.
type Credentials struct {
	Authorization []byte // value of the Authorization header
	APIKey        []byte // value of x-api-key (Anthropic clients)
}
