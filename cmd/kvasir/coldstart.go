package main

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"
)

// loading answers 503 on l for the time d, as an engine does while it loads its
// weights, and leaves l open.
func loading(ctx context.Context, l net.Listener, d time.Duration) error {
	t, ok := l.(*net.TCPListener)
	if d <= 0 || !ok {
		return nil
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			http.Error(w, "the model is loading", http.StatusServiceUnavailable)
		})}
	if err := t.SetDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { t.SetDeadline(time.Now()) })
	defer stop()
	srv.Serve(keptOpen{t}) // ends with the deadline
	srv.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.SetDeadline(time.Time{})
}

// keptOpen is a listener that an http.Server cannot close, and that reports itself
// closed at its deadline.
type keptOpen struct{ net.Listener }

func (k keptOpen) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (keptOpen) Close() error { return nil }

// endWith returns a context that ends when the process pid has ended.
func endWith(ctx context.Context, pid int) context.Context {
	if pid == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for syscall.Kill(pid, 0) == nil {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx
}
