package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
)

// Handler returns the API with its guards.
func (s *Server) Handler() http.Handler {
	api := http.NewServeMux()
	if e := s.cfg.Explainer; e != nil {
		api.HandleFunc("GET /v1/explain/{id...}", func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, func(ctx context.Context) (any, error) { return e.Explain(ctx, r.PathValue("id")) })
		})
		api.HandleFunc("POST /v1/explain", s.dryRun)
	}
	if st := s.cfg.Status; st != nil {
		api.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, st.Status) })
		api.HandleFunc("GET /v1/endpoints", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, st.Endpoints) })
	}
	if re := s.cfg.Reloader; re != nil {
		api.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) {
			s.cfg.Log.Info("reload asked for", "remote", r.RemoteAddr)
			s.answer(w, r, re.Reload)
		})
	}
	if p := s.cfg.Plugins; p != nil {
		api.HandleFunc("GET /v1/plugins", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, p.Plugins) })
		api.HandleFunc("POST /v1/plugins", s.push)
		api.HandleFunc("POST /v1/plugins/{name}/rollback", func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, func(ctx context.Context) (any, error) { return p.Rollback(ctx, r.PathValue("name")) })
		})
		api.HandleFunc("DELETE /v1/plugins/{name}/shadow", func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, func(ctx context.Context) (any, error) { return p.EndShadow(ctx, r.PathValue("name")) })
		})
		api.HandleFunc("DELETE /v1/plugins/{name}", func(w http.ResponseWriter, r *http.Request) {
			s.answer(w, r, func(ctx context.Context) (any, error) { return p.Deactivate(ctx, r.PathValue("name")) })
		})
	}
	if s.cfg.Metrics != nil {
		api.Handle("GET /metrics", s.cfg.Metrics)
	}
	profiles(api)
	api.HandleFunc("/", notFound)

	mux := http.NewServeMux()
	s.health(mux)
	mux.Handle("/", s.guard.named(s.guard.authorised(jsonErrors(api))))
	return headers(s.recovered(mux))
}

// profiles serves the Go profiler.
func profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
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

// dryRun explains the request in the body as it would be decided now. Who would
// ask and by which path stands in the query.
func (s *Server) dryRun(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	d := DryRun{Tenant: q.Get("tenant"), User: q.Get("user"), Path: q.Get("path"), Body: body}
	if d.Path == "" {
		d.Path = "/v1/chat/completions"
	}
	s.answer(w, r, func(ctx context.Context) (any, error) { return s.cfg.Explainer.DryRun(ctx, &d) })
}

// push stores the module in the body under the name in the query.
func (s *Server) push(w http.ResponseWriter, r *http.Request) {
	code, ok := s.body(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	activate, shadow := q.Get("activate") == "true", q.Get("shadow") == "true"
	s.cfg.Log.Info("plugin pushed", "plugin", q.Get("name"), "bytes", len(code), "activate", activate, "shadow", shadow, "remote", r.RemoteAddr)
	s.answer(w, r, func(ctx context.Context) (any, error) {
		switch {
		case activate && shadow:
			return nil, fmt.Errorf("%w: say either activate or shadow", ErrRefused)
		case shadow:
			return s.cfg.Plugins.Shadow(ctx, q.Get("name"), code)
		}
		return s.cfg.Plugins.Push(ctx, q.Get("name"), code, activate)
	})
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
	default:
		s.cfg.Log.Warn("admin request failed", "path", r.URL.Path, "err", err)
		writeError(w, http.StatusInternalServerError, "internal_error", err.Error())
	}
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

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"message":"The answer cannot be rendered.","code":"internal_error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	type body struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	writeJSON(w, status, map[string]body{"error": {message, code}})
}
