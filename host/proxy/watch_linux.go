//go:build linux && !portable && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

const (
	epollRDHUP = 0x2000
	epollET    = 1 << 31
)

// watchee is told when its peer closed, half-closed or reset the connection:
// at least once, on the watcher's goroutine, which it must not block.
type watchee interface{ peerGone() }

// watcher tells when the peer of a connection went away, without reading from
// the connection, without a goroutine per connection and without a system call
// per request: a connection is registered once, edge-triggered for EPOLLRDHUP
// (EPOLLHUP and EPOLLERR come by themselves). The epoll set is itself watched
// through Go's netpoller (nested epoll), so no thread blocks.
type watcher struct {
	epfd int
	f    *os.File

	mu    sync.Mutex // guards what follows
	conns []watchee  // by slot; nil = free
	gens  []int32    // generation of each slot: a late event never reaches the slot's next owner
	free  []int32
}

func newWatcher() (*watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("proxy: epoll: %w", err)
	}
	if err = syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("proxy: epoll: %w", err)
	}
	return &watcher{epfd: fd, f: os.NewFile(uintptr(fd), "epoll")}, nil
}

// close ends run.
func (w *watcher) close() { w.f.Close() }

// run delivers events until close.
func (w *watcher) run() {
	rc, err := w.f.SyscallConn()
	if err != nil {
		return
	}
	evs := make([]syscall.EpollEvent, 128)
	hit := make([]watchee, 0, 128)
	n := 0
	ready := func(fd uintptr) bool {
		var e error
		for {
			if n, e = syscall.EpollWait(int(fd), evs, 0); e != syscall.EINTR {
				break
			}
		}
		return n > 0 || e != nil
	}
	for {
		n = 0
		if rc.Read(ready) != nil {
			return
		}
		hit = w.lookup(evs[:max(n, 0)], hit[:0])
		for i, c := range hit {
			c.peerGone()
			hit[i] = nil
		}
	}
}

func (w *watcher) lookup(evs []syscall.EpollEvent, hit []watchee) []watchee {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range evs {
		// Fd carries the slot, Pad its generation.
		if i := int(ev.Fd); i < len(w.conns) && w.gens[i] == ev.Pad && w.conns[i] != nil {
			hit = append(hit, w.conns[i])
		}
	}
	return hit
}

// add watches the descriptor of rc until it is closed; remove must come first.
func (w *watcher) add(c watchee, rc syscall.RawConn) (slot int32, err error) {
	w.mu.Lock()
	if n := len(w.free); n > 0 {
		slot = w.free[n-1]
		w.free = w.free[:n-1]
	} else {
		slot = int32(len(w.conns))
		w.conns = append(w.conns, nil)
		w.gens = append(w.gens, 0)
	}
	w.conns[slot] = c
	gen := w.gens[slot]
	w.mu.Unlock()
	cerr := rc.Control(func(fd uintptr) {
		ev := syscall.EpollEvent{Events: epollRDHUP | epollET, Fd: slot, Pad: gen}
		err = syscall.EpollCtl(w.epfd, syscall.EPOLL_CTL_ADD, int(fd), &ev)
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		w.remove(slot)
		return 0, fmt.Errorf("proxy: epoll: %w", err)
	}
	return slot, nil
}

// remove frees the slot. An event already looked up may still be delivered.
func (w *watcher) remove(slot int32) {
	w.mu.Lock()
	w.conns[slot] = nil
	w.gens[slot]++
	w.free = append(w.free, slot)
	w.mu.Unlock()
}
