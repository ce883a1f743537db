package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// route is one path of the API and what it takes to use it.
type route struct {
	pattern string                     // as for http.ServeMux
	scope   string                     // checked before serve is called
	object  func(*http.Request) string // what it is about, for policy and the audit log; nil = the body tells, and serve asks policy
	undo    bool                       // it puts back what was in force before
	serve   http.HandlerFunc
}

// fixed names an object that is the same for all requests.
func fixed(object string) func(*http.Request) string {
	return func(*http.Request) string { return object }
}

// named names an object by a part of the path.
func named(kind, part string) func(*http.Request) string {
	return func(r *http.Request) string { return kind + "/" + r.PathValue(part) }
}

// asked names an object by a word of the query.
func asked(kind, word string) func(*http.Request) string {
	return func(r *http.Request) string { return kind + "/" + r.URL.Query().Get(word) }
}

// read serves what f returns.
func read[T any](s *Server, f func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, func(ctx context.Context) (any, error) { return f(ctx) })
	}
}

func (s *Server) pluginList(ctx context.Context) (PluginList, error) {
	list, err := s.cfg.Plugins.Plugins(ctx)
	return PluginList{list}, err
}

// routes returns every path of the API that takes a principal.
func (s *Server) routes() []route {
	// change serves a deed on the object of its route.
	change := func(verb string, object func(*http.Request) string, f func(context.Context, *http.Request) (any, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s.change(w, r, deed{verb: verb, object: object(r)}, func(ctx context.Context) (any, error) { return f(ctx, r) })
		}
	}
	var list []route
	add := func(pattern, scope string, object func(*http.Request) string, serve http.HandlerFunc) {
		list = append(list, route{pattern: pattern, scope: scope, object: object, serve: serve})
	}
	undo := func() { list[len(list)-1].undo = true }
	if s.cfg.Explainer != nil {
		add("GET /v1/explain/{id...}", ScopeExplainOwn, named("request", "id"), s.explain)
		add("POST /v1/explain", ScopeExplainOwn, asked("tenant", "tenant"), s.dryRun)
	}
	if st := s.cfg.Status; st != nil {
		add("GET /v1/status", ScopeStatus, fixed("status"), read(s, st.Status))
		add("GET /v1/endpoints", ScopeEndpointRead, fixed("endpoints"), read(s, st.Endpoints))
	}
	if re := s.cfg.Reloader; re != nil {
		add("POST /v1/reload", ScopeConfigReload, fixed("config"), change(ScopeConfigReload, fixed("config"), func(ctx context.Context, _ *http.Request) (any, error) { return re.Reload(ctx) }))
	}
	if p := s.cfg.Plugins; p != nil {
		plugin := named("plugin", "name")
		add("GET /v1/plugins", ScopePluginRead, fixed("plugins"), read(s, s.pluginList))
		add("POST /v1/plugins", ScopePluginPush, asked("plugin", "name"), s.push)
		add("POST /v1/plugins/{name}/activate", ScopePluginActivate, plugin, s.activate)
		add("POST /v1/plugins/{name}/rollback", ScopePluginActivate, plugin, change("plugin:rollback", plugin, func(ctx context.Context, r *http.Request) (any, error) { return p.Rollback(ctx, r.PathValue("name")) }))
		undo()
		add("DELETE /v1/plugins/{name}/shadow", ScopePluginPush, plugin, change("plugin:unshadow", plugin, func(ctx context.Context, r *http.Request) (any, error) { return p.EndShadow(ctx, r.PathValue("name")) }))
		add("DELETE /v1/plugins/{name}", ScopePluginActivate, plugin, change("plugin:deactivate", plugin, func(ctx context.Context, r *http.Request) (any, error) { return p.Deactivate(ctx, r.PathValue("name")) }))
		undo()
	}
	if s.cfg.Keys != nil {
		add("GET /v1/keys", ScopeKeyRead, fixed("keys"), s.listKeys)
		add("POST /v1/keys", ScopeKeyIssue, nil, s.issueKey)
		add("POST /v1/keys/{id}/rotate", ScopeKeyIssue, nil, s.rotateKey)
		add("POST /v1/keys/{id}/revoke", ScopeKeyRevoke, nil, s.revokeKey)
	}
	if p := s.cfg.Policies; p != nil {
		whole := fixed("policy")
		add("GET /v1/policy", ScopePolicyRead, whole, read(s, p.Policy))
		add("POST /v1/policy", ScopePolicyActivate, whole, s.policyPush)
		add("POST /v1/policy/reload", ScopePolicyActivate, whole, s.policyReload)
		add("POST /v1/policy/diff", ScopePolicyRead, whole, s.policyDiff)
		add("POST /v1/policy/explain", ScopePolicyRead, whole, s.policyExplain)
	}
	if s.cfg.Holder != nil {
		for _, verb := range holdVerbs {
			add("POST /v1/endpoints/"+verb, ScopeEndpointWrite, asked("endpoint", "endpoint"), s.hold(verb))
		}
	}
	if a := s.cfg.Scaler; a != nil {
		add("GET /v1/autoscale", ScopeAutoscaleRead, fixed("autoscale"), read(s, a.Autoscale))
		add("POST /v1/autoscale/notice", ScopeAutoscaleWrite, fixed("autoscale"), s.notice)
	}
	if s.cfg.Metrics != nil {
		add("GET /metrics", ScopeMetrics, fixed("metrics"), s.cfg.Metrics.ServeHTTP)
	}
	for path, h := range profiles {
		add("GET /debug/pprof/"+path, ScopeDebug, fixed("process"), s.profile(h))
	}
	return list
}

// Handler returns the API with its guards.
func (s *Server) Handler() http.Handler {
	api := http.NewServeMux()
	for _, rt := range s.routes() {
		api.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			object := ""
			if rt.object != nil {
				object = rt.object(r)
			}
			q := Question{Verb: rt.scope, Object: object, Version: r.URL.Query().Get("digest"), Undo: rt.undo}
			if s.scoped(w, r, rt.scope, object) && (rt.object == nil || s.permitted(w, r, q)) {
				rt.serve(w, r)
			}
		})
	}
	api.HandleFunc("/", notFound)

	mux := http.NewServeMux()
	s.health(mux)
	mux.Handle("/", s.guard.named(s.authorised(api, jsonErrors(api))))
	return headers(s.recovered(mux))
}

// profiles are the pages of the Go profiler.
var profiles = map[string]http.HandlerFunc{
	"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
}

// profile serves a page of the profiler and records that, since memory has
// prompts in it.
func (s *Server) profile(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := deed{ScopeDebug, r.URL.Path, map[string]string{"remote": r.RemoteAddr}}
		if err := s.append(r, &d, audit.OK); err != nil {
			s.cfg.Log.Error("audit log", "err", err)
			writeError(w, http.StatusServiceUnavailable, "audit_unavailable", "The audit log cannot be written: "+err.Error())
			return
		}
		h(w, r)
	}
}

// health serves what a load balancer asks, without a token and for any host
// name: it tells nothing but whether requests are served.
func (s *Server) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.cfg.Status != nil {
			if err := s.cfg.Status.Ready(); err != nil {
				writeError(w, http.StatusServiceUnavailable, "not_ready", err.Error())
				return
			}
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	})
}

// explain returns the decision about a served request of the tenant in the
// query: by default the caller's own, or any for callers that hold explain:any.
// Request ids are looked up by tenant, so that another tenant's request and one
// that does not exist get the same answer.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	id, p, tenant := r.PathValue("id"), principal(r), r.URL.Query().Get("tenant")
	if tenant == "" && !holds(p, ScopeExplainAny) {
		tenant = p.Tenant
	}
	if tenant != "" && tenant != p.Tenant && !s.permit(w, r, ScopeExplainAny, "tenant/"+tenant) {
		return
	}
	x, owner, err := s.cfg.Explainer.Explain(r.Context(), tenant, id)
	owners := []string{owner}
	if a, ok := errors.AsType[*AmbiguousError](err); ok {
		owners = a.Tenants
	} else if err != nil || owner == p.Tenant {
		s.answer(w, r, func(context.Context) (any, error) { return x, err })
		return
	}
	for _, t := range owners {
		if t != p.Tenant && !s.permit(w, r, ScopeExplainAny, "tenant/"+t) {
			return
		}
	}
	s.change(w, r, deed{ScopeExplainAny, "request/" + id, map[string]string{"tenant": strings.Join(owners, " ")}},
		func(context.Context) (any, error) { return x, err })
}

// dryRun explains the request in the body as it would be decided now. Who would
// ask and by which path stands in the query.
func (s *Server) dryRun(w http.ResponseWriter, r *http.Request) {
	q, p := r.URL.Query(), principal(r)
	d := DryRun{Tenant: q.Get("tenant"), User: q.Get("user"), Path: q.Get("path")}
	if d.Tenant == "" {
		d.Tenant = p.Tenant // of the admin token none: anonymous
	}
	if d.Path == "" {
		d.Path = "/v1/chat/completions"
	}
	own := d.Tenant == p.Tenant
	if !own && !s.permit(w, r, ScopeExplainAny, "tenant/"+d.Tenant) {
		return
	}
	var ok bool
	if d.Body, ok = s.body(w, r); !ok {
		return
	}
	f := func(ctx context.Context) (any, error) { return s.cfg.Explainer.DryRun(ctx, &d) }
	if own {
		s.answer(w, r, f)
		return
	}
	s.change(w, r, deed{verb: ScopeExplainAny, object: "tenant/" + d.Tenant}, f)
}

// push stores the module in the body under the name in the query.
func (s *Server) push(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name, activate, shadow := q.Get("name"), q.Get("activate") == "true", q.Get("shadow") == "true"
	if activate && !s.permitted(w, r, Question{Verb: ScopePluginActivate, Object: "plugin/" + name, Own: true}) {
		return
	}
	code, ok := s.body(w, r)
	if !ok {
		return
	}
	sum, who := sha256.Sum256(code), principal(r).Name()
	d := deed{ScopePluginPush, "plugin/" + name, map[string]string{
		"digest": hex.EncodeToString(sum[:]), "activate": fmt.Sprint(activate), "shadow": fmt.Sprint(shadow),
	}}
	s.change(w, r, d, func(ctx context.Context) (v any, err error) {
		switch {
		case activate && shadow:
			return nil, fmt.Errorf("%w: say either activate or shadow", ErrRefused)
		case shadow:
			v, err = s.cfg.Plugins.Shadow(ctx, name, code, who)
		default:
			v, err = s.cfg.Plugins.Push(ctx, name, code, activate, who)
		}
		return v, err
	})
}

// activate puts a version in force that somebody pushed before.
func (s *Server) activate(w http.ResponseWriter, r *http.Request) {
	name, digest := r.PathValue("name"), r.URL.Query().Get("digest")
	d := deed{ScopePluginActivate, "plugin/" + name, map[string]string{"digest": digest}}
	s.change(w, r, d, func(ctx context.Context) (any, error) { return s.cfg.Plugins.Activate(ctx, name, digest) })
}

// body reads the body; where it cannot it answers, and ok is false.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (b []byte, ok bool) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if err == nil {
		return b, true
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		writeError(w, http.StatusRequestEntityTooLarge, "body_too_large", "The body is larger than this listener takes.")
		return nil, false
	}
	writeError(w, http.StatusBadRequest, "bad_body", "The body could not be read.")
	return nil, false
}

// answer writes what f returns.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, f func(context.Context) (any, error)) {
	v, err := f(r.Context())
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, v)
	case errors.Is(err, ErrNotFound):
		writeError(w, http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, ErrRefused):
		writeError(w, http.StatusUnprocessableEntity, "refused", err.Error())
	case isAmbiguous(err):
		writeError(w, http.StatusConflict, "ambiguous_request_id", err.Error())
	default:
		s.cfg.Log.Warn("admin request failed", "path", r.URL.Path, "err", err)
		writeError(w, http.StatusInternalServerError, "internal_error", err.Error())
	}
}

func isAmbiguous(err error) bool {
	_, ok := errors.AsType[*AmbiguousError](err)
	return ok
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "unknown_path", "There is no such path on this listener.")
}

// headers keeps browsers from guessing, framing and keeping what is served.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovered turns a panic of a handler into status 500.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				s.cfg.Log.Error("admin handler panic", "path", r.URL.Path, "err", p)
				writeError(w, http.StatusInternalServerError, "internal_error", "A bug of the router; see its log.")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// jsonErrors gives the mux's own answer to a wrong method the common shape.
func jsonErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allow := allowed(mux, r); allow != "" {
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "This path takes "+allow+".")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// allowed returns the method a path takes if r has another one, else "".
func allowed(mux *http.ServeMux, r *http.Request) string {
	if _, pattern := mux.Handler(r); pattern != "/" {
		return ""
	}
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = m
		if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" && m != r.Method {
			return m
		}
	}
	return ""
}

// writeJSON writes v as JSON. Only the answer that issues a key has one in it:
// everywhere else credentials are removed, wherever they come from.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"message":"The answer cannot be rendered.","code":"internal_error"}}`)
	}
	if _, issued := v.(IssuedKey); !issued {
		b = []byte(secret.Redact(string(b)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// writeError writes an error in the shape of the API.
func writeError(w http.ResponseWriter, status int, code, message string) {
	type body struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	writeJSON(w, status, map[string]body{"error": {message, code}})
}
