package harness

import "syscall"

// childAttr puts a child into a process group of its own and has the system kill
// it when the test's process ends.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
