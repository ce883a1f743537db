// Package hostmod holds the host modules a plugin may import: kvasir:log/1,
// kvasir:kv/1 and kvasir:metrics/1 (abi/SPEC.md section 7). None of them
// blocks, reads a clock a guest could see, or leaves the process.
package hostmod
