package admin

import "net/http"

// health responds while the process runs. Load balancers call it and ready, without
// a credential and by any host name.
func health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready reports whether requests are served.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.cfg.Status != nil {
		if err := s.cfg.Status.Ready(); err != nil {
			writeError(w, http.StatusServiceUnavailable, "not_ready", err.Error())
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "unknown_path", "There is no such path on this listener.")
}

// headers keeps browsers from sniffing, framing and caching responses.
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
				writeError(w, http.StatusInternalServerError, "internal_error", "Internal error of the router; see its log.")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// jsonErrors answers a wrong method in the shape of the API's errors.
func jsonErrors(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allow := allowed(mux, r); allow != "" {
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "This path accepts only "+allow+".")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// allowed returns the method of a path if r has another one, else "".
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
