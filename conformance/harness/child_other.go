//go:build !linux

package harness

import "syscall"

// childAttr puts a child into a process group of its own. Outside Linux a child
// outlives a test's process that is killed.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
