//go:build unix

package autoscale

import (
	"os/exec"
	"syscall"
)

// ownGroup lets the command's children end with it.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
