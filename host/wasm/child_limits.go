package wasm

import (
	"syscall"
	"time"
)

// limitChild bounds the memory of this process.
func limitChild() error {
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: childBytes, Max: childBytes})
}

// limitProcessor bounds what this process may use from here on. The system ends
// it when that is used up.
func limitProcessor() error {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &l); err != nil {
		return err
	}
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	l.Cur = atMost(int64((used+childProcessor)/time.Second)+1, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &l)
}

// atMost returns v, or the limit where that is less. The types of limits differ
// between systems.
func atMost[T int64 | uint64](v int64, limit T) T { return min(T(v), limit) }
