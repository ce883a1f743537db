package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kvasir-router/kvasir/host/policy"
)

// Policies tells of the policy and puts another one in force. What it refuses
// wraps ErrRefused; where the router has no policy, ErrNotFound.
type Policies interface {
	Policy(ctx context.Context) (*PolicyStatus, error)
	// ReloadPolicy reads the policy's directory and puts it in force, whatever its
	// gates say if force is set. On error the policy before stays.
	ReloadPolicy(ctx context.Context, force bool) (*PolicyStatus, error)
	// PushPolicy puts the policy in files, by path, in force until the directory
	// changes. On error the policy before stays.
	PushPolicy(ctx context.Context, files map[string][]byte, force bool) (*PolicyStatus, error)
	// PolicyDiff says what the policy in files, by path, would decide otherwise
	// about what clients asked of late. Nothing changes.
	PolicyDiff(ctx context.Context, files map[string][]byte) (*policy.Diff, error)
	// PolicyExplain says how the policy in force decides about an input document.
	PolicyExplain(ctx context.Context, input []byte) (*policy.Explanation, error)
}

// policyReload puts in force what the policy's directory holds.
func (s *Server) policyReload(w http.ResponseWriter, r *http.Request) {
	force := r.URL.Query().Get("force") == "true"
	d := deed{ScopePolicyActivate, "policy", map[string]string{"force": strconv.FormatBool(force)}}
	s.change(w, r, d, func(ctx context.Context) (any, error) { return s.cfg.Policies.ReloadPolicy(ctx, force) })
}

// policyExplain decides about the input document in the body. It may be any
// tenant's, but tells nothing of what the tenant asked.
func (s *Server) policyExplain(w http.ResponseWriter, r *http.Request) {
	if body, ok := s.body(w, r); ok {
		s.answer(w, r, func(ctx context.Context) (any, error) { return s.cfg.Policies.PolicyExplain(ctx, body) })
	}
}

// policyPush puts the files of the body in force.
func (s *Server) policyPush(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	force, sum := r.URL.Query().Get("force") == "true", sha256.Sum256(body)
	d := deed{ScopePolicyActivate, "policy", map[string]string{"force": strconv.FormatBool(force), "body_sha256": hex.EncodeToString(sum[:])}}
	s.change(w, r, d, func(ctx context.Context) (any, error) {
		files, err := policyFiles(body)
		if err != nil {
			return nil, err
		}
		return s.cfg.Policies.PushPolicy(ctx, files, force)
	})
}

// policyDiff compares the files of the body with the policy in force.
func (s *Server) policyDiff(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	s.answer(w, r, func(ctx context.Context) (any, error) {
		files, err := policyFiles(body)
		if err != nil {
			return nil, err
		}
		return s.cfg.Policies.PolicyDiff(ctx, files)
	})
}

// policyFiles reads a JSON object of file names and their contents in base64.
func policyFiles(body []byte) (files map[string][]byte, err error) {
	if err := json.Unmarshal(body, &files); err != nil {
		return nil, fmt.Errorf("%w: want a JSON object of file names and contents in base64: %v", ErrRefused, err)
	}
	return files, nil
}
