package wasm

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const schedIdle = 5 // SCHED_IDLE of sched.h: runs only if the processor is idle

// lowerChild gives every thread of this process the lowest priority; those to
// come inherit it. It also limits the memory of the process.
func lowerChild() error {
	if err := limitChild(); err != nil {
		return err
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		// A thread that ended meanwhile needs no priority.
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, 19); err != nil && err != syscall.ESRCH {
			return err
		}
		var zero int32 // struct sched_param
		_, _, e := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(id), schedIdle, uintptr(unsafe.Pointer(&zero)))
		if e != 0 && e != syscall.ESRCH && e != syscall.EPERM { // a sandbox may forbid it; nice is in force then
			return e
		}
	}
	return nil
}
