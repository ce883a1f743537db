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

// watchee is a watched connection. peerGone is called at least once when its peer
// closed, half-closed or reset the connection, on the watcher's goroutine, which it
// must not block.
type watchee interface{ peerGone() }

// watcher notices when the peer of a connection leaves, without reading from the
// connection, without a goroutine per connection and without a system call per
// request: a connection is registered once, edge-triggered for EPOLLRDHUP
// (EPOLLHUP and EPOLLERR come by themselves). The epoll set is itself watched
// through Go's netpoller (nested epoll), so no thread blocks.
type watcher struct {
	epfd int
	f    *os.File

	mu     sync.Mutex // guards what follows
	conns  []watchee  // by slot; nil = free
	epochs []int32    // of each slot: a late event never reaches the slot's next owner
	free   []int32
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
		// Fd is the slot, Pad its epoch.
		if i := int(ev.Fd); i < len(w.conns) && w.epochs[i] == ev.Pad && w.conns[i] != nil {
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
		w.epochs = append(w.epochs, 0)
	}
	w.conns[slot] = c
	epoch := w.epochs[slot]
	w.mu.Unlock()
	cerr := rc.Control(func(fd uintptr) {
		ev := syscall.EpollEvent{Events: epollRDHUP | epollET, Fd: slot, Pad: epoch}
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

// remove frees the slot. An event that was looked up before may still be delivered.
func (w *watcher) remove(slot int32) {
	w.mu.Lock()
	w.conns[slot] = nil
	w.epochs[slot]++
	w.free = append(w.free, slot)
	w.mu.Unlock()
}
