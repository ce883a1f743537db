//go:build linux && !portable && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

import (
	"encoding/binary"
	"syscall"
	"unsafe"
)

// The functions of this file make system calls without notifying the Go scheduler:
// every descriptor is nonblocking. A notified call wakes sysmon, and if it takes
// 20 µs sysmon hands the processor to another thread; both cost more than the call
// itself for a paced stream of small events.

// iovMax is the kernel's limit of parts per writev (UIO_MAXIOV).
const iovMax = 1024

func sysRead(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

func sysWrite(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// sysWritev writes at most the first iovMax parts.
func sysWritev(fd uintptr, v []syscall.Iovec) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(v))),
		uintptr(min(len(v), iovMax)))
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// sysPeek returns the error that a read would return, without reading: EAGAIN for a
// healthy idle connection, 0 for bytes or a close.
func sysPeek(fd uintptr) syscall.Errno {
	var b [1]byte
	_, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1,
		syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return e
}

// ackedOffset is the offset of tcpi_bytes_acked in struct tcp_info (linux/tcp.h), which
// has it since 4.1.
const ackedOffset = 120

// sysAcked returns how many bytes of those written to a TCP socket its other end has
// acknowledged since the connection began, the one of the SYN included. It works after
// a reset too.
func sysAcked(fd uintptr) (n uint64, ok bool) {
	var b [ackedOffset + 8]byte
	size := uint32(len(b))
	_, _, e := syscall.RawSyscall6(syscall.SYS_GETSOCKOPT, fd, syscall.IPPROTO_TCP, syscall.TCP_INFO,
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0)
	return binary.NativeEndian.Uint64(b[ackedOffset:]), e == 0 && int(size) == len(b)
}
