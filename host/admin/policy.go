package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/kvasir-router/kvasir/host/policy"
)

// Policies shows the policy in force and puts another one in force. What it
// refuses wraps ErrRefused; where the router has no policy, ErrNotFound.
type Policies interface {
	Policy(ctx context.Context) (*PolicyStatus, error)
	// ReloadPolicy reads the policy's directory and puts it in force, whatever its
	// gates say if force is set. On error the previous policy stays in force.
	ReloadPolicy(ctx context.Context, force bool) (*PolicyStatus, error)
	// PushPolicy puts the policy in files, by path, in force until the directory
	// changes. On error the previous policy stays in force.
	PushPolicy(ctx context.Context, files map[string][]byte, force bool) (*PolicyStatus, error)
	// PolicyDiff says which recent decisions the policy in files, by path, would
	// change. Nothing changes.
	PolicyDiff(ctx context.Context, files map[string][]byte) (*policy.Diff, error)
	// PolicyExplain says how the policy in force decides about an input document.
	PolicyExplain(ctx context.Context, input []byte) (*policy.Explanation, error)
}

func forceDetail(force bool) map[string]string {
	return map[string]string{"force": strconv.FormatBool(force)}
}

// policyDetail identifies a pushed policy by the hash of its files as JSON.
func policyDetail(q *PolicyPushRequest) map[string]string {
	d := forceDetail(q.Force)
	if b, err := json.Marshal(q.Files); err == nil {
		sum := sha256.Sum256(b)
		d["body_sha256"] = hex.EncodeToString(sum[:])
	}
	return d
}
