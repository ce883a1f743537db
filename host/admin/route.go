package admin

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Route is one row of the API. The handler of the path, SCOPES.md, the OpenAPI
// document and the client are made from it.
type Route struct {
	Method, Path string // Path as for http.ServeMux
	Scope        string // "" = no credential is needed
	Action       Action // verb in the audit log; "" = not recorded
	Doc          string // one line

	Request     reflect.Type // a struct with the tags of codec.go; nil = no parameters
	Response    reflect.Type // of the JSON response; nil = see ContentType
	ContentType string       // of a response that has no type

	served func(*Config) bool // whether a server with this configuration has the route
	serve  func(s *Server, w http.ResponseWriter, r *http.Request)
}

// pattern is the route as http.ServeMux takes it.
func (rt *Route) pattern() string { return rt.Method + " " + rt.Path }

// table is every route of the API, in the order of routes.go. It is complete
// before main begins and does not change.
var table []*Route

// Routes returns every route of the API, also those that a server may not have.
// The caller must not change them.
func Routes() []*Route { return table }

// Operation is a route whose request is a Q and whose response is an R.
type Operation[Q, R any] struct{ *Route }

// row declares an operation.
type row[Q, R any] struct {
	at     string // method and path
	scope  string
	action Action // "" = a read, which is not recorded
	doc    string
	served func(*Config) bool

	// object names the object of the request, from its path and query, for policy and
	// the audit log. nil = the handler finds it and calls permit.
	object func(q *Q) string
	undo   bool // it activates what was in force before

	// Exactly one of handle and decide. handle serves the request; if the route has an
	// action, it is called between two lines of the audit log, which have detail.
	// decide reads the body, checks further rights and records by itself; scope and
	// object were checked.
	handle func(s *Server, c *call, q *Q) (R, error)
	decide func(s *Server, c *call, q *Q) (R, error)
	detail func(q *Q) map[string]string
}

// add puts a row in the table.
func add[Q, R any](rw row[Q, R]) Operation[Q, R] {
	method, path, _ := strings.Cut(rw.at, " ")
	rt := &Route{
		Method: method, Path: path, Scope: rw.scope, Action: rw.action, Doc: rw.doc, served: rw.served,
		Request: reflect.TypeFor[Q](), Response: reflect.TypeFor[R](),
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			c := &call{Server: s, w: w, r: r, principal: principal(r)}
			v, err := rw.answer(c)
			s.respond(w, r, v, err)
		},
	}
	table = append(table, rt)
	return Operation[Q, R]{rt}
}

// answer serves one request: it reads the parameters, checks the rights, reads the
// body and calls the handler.
func (rw *row[Q, R]) answer(c *call) (out R, err error) {
	q := new(Q)
	paramErr := readParams(c.r, q)
	object := ""
	if rw.object != nil {
		object = rw.object(q)
	}
	if err := c.scoped(rw.scope, object); err != nil {
		return out, err
	}
	if rw.object != nil {
		question := Question{Verb: rw.scope, Object: object, Version: c.r.URL.Query().Get("digest"), Undo: rw.undo}
		if err := c.permitted(question); err != nil {
			return out, err
		}
	}
	if paramErr != nil {
		return out, paramErr
	}
	if rw.decide != nil {
		return rw.decide(c.Server, c, q)
	}
	if err := readBody(c, q); err != nil {
		return out, err
	}
	if rw.action == "" {
		return rw.handle(c.Server, c, q)
	}
	a := auditedAction{action: rw.action, object: object}
	if rw.detail != nil {
		a.detail = rw.detail(q)
	}
	return audited(c, a, func(context.Context) (R, error) { return rw.handle(c.Server, c, q) })
}

// call is one request of a known sender. Several goroutines must not use it.
type call struct {
	*Server
	w         http.ResponseWriter
	r         *http.Request
	principal *identity.Principal
}

func (c *call) context() context.Context { return c.r.Context() }

// page declares a route whose response is not JSON.
type page struct {
	at, scope, doc, contentType string
	action                      Action // recorded before the page is served
	served                      func(*Config) bool
	object                      string
	handler                     func(s *Server) http.Handler
}

// addPage puts a page in the table.
func addPage(p page) *Route {
	method, path, _ := strings.Cut(p.at, " ")
	rt := &Route{
		Method: method, Path: path, Scope: p.scope, Action: p.action, Doc: p.doc,
		ContentType: p.contentType, served: p.served,
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			c := &call{Server: s, w: w, r: r, principal: principal(r)}
			if p.scope != "" && !s.open {
				err := c.permitted(Question{Verb: p.scope, Object: p.object})
				if err == nil && p.action != "" {
					err = c.recordPage(p.action)
				}
				if err != nil {
					s.respond(w, r, nil, err)
					return
				}
			}
			p.handler(s).ServeHTTP(w, r)
		},
	}
	table = append(table, rt)
	return rt
}

// Handler returns the API with its guards.
func (s *Server) Handler() http.Handler {
	open, api := http.NewServeMux(), http.NewServeMux()
	s.register(open, func(rt *Route) bool { return rt.Scope == "" })
	s.register(api, func(rt *Route) bool { return rt.Scope != "" })
	api.HandleFunc("/", notFound)
	open.Handle("/", s.named(s.authorised(api, jsonErrors(api))))
	return headers(s.recovered(open))
}

// register adds the routes of the table that this server has and that want is
// true of. It is the only place where a path gets a handler.
func (s *Server) register(mux *http.ServeMux, want func(*Route) bool) {
	for _, rt := range table {
		if want(rt) && (rt.served == nil || rt.served(&s.cfg)) {
			mux.HandleFunc(rt.pattern(), func(w http.ResponseWriter, r *http.Request) { rt.serve(s, w, r) })
		}
	}
}

// fixed names an object that is the same for all requests.
func fixed[Q any](object string) func(*Q) string { return func(*Q) string { return object } }

// String returns method and path.
func (rt *Route) String() string { return fmt.Sprintf("%s %s", rt.Method, rt.Path) }
