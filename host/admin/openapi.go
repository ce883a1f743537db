package admin

import (
	_ "embed"
	"net/http"
)

//go:generate go test . -run "TestScopes_page|TestOpenAPI" -update

// openAPIDocument is openapi.json, which is generated from the table of routes by
// go generate.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI serves the document.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(openAPIDocument)
}
