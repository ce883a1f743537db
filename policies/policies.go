// Package policies holds the policy that ships: its Rego with tests, the schemas
// of what goes in and out, data to begin with, and examples. README.md says how
// to write one's own.
package policies

import "embed"

// FS is the folder as it is in the repository, without scripts and Go files:
// kvasir, site, schemas, data, capabilities.json, README.md and examples.
//
//go:embed README.md capabilities.json data examples kvasir schemas site
var FS embed.FS
