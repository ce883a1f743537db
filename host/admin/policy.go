package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

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
