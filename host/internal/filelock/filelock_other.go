//go:build !unix

package filelock

// Kvasir runs on Linux and macOS: it relies on advisory locks of files, process
// groups and limits of child processes, as Unix has them. The undefined name
// below is the message that a build for another system ends with. On Windows,
// use WSL.
var _ = kvasir_runs_on_linux_and_macos_only_see_README

// Lock is not implemented: see above.
func Lock(string) (unlock func(), err error) { panic("BUG: filelock: not Unix") }

// ErrLocked is never returned: see above.
var ErrLocked error

// TryLock is not implemented: see above.
func TryLock(path, note string) (unlock func(), err error) { panic("BUG: filelock: not Unix") }
