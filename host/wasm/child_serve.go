package wasm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// ServeChild is the program of Config.Child: it reads modules from in, loads them with
// the modules that a guest may import and the check that pushed modules must pass (may
// be nil), and writes a verdict for each to out, until in ends. It gives this process
// the lowest priority, limits its memory and processor time, and exits the process when
// in is closed during a load.
func ServeChild(in io.Reader, out io.Writer, modules []*HostModule,
	check func(context.Context, *Runtime, *Plugin) error) error {
	if err := lowerChild(); err != nil {
		return fmt.Errorf("wasm: child: %w", err)
	}
	type asked struct {
		t    *trial
		code []byte
		err  error
	}
	var busy atomic.Bool
	next := make(chan asked)
	go func() { // ends with the process
		for {
			t, code, err := readTrial(in)
			if err != nil && busy.Load() { // no one reads the verdict
				os.Exit(1)
			}
			busy.Store(err == nil)
			next <- asked{t, code, err}
		}
	}()
	for a := range next {
		if errors.Is(a.err, io.EOF) {
			return nil
		}
		if a.err != nil {
			return fmt.Errorf("wasm: child: %w", a.err)
		}
		v, err := a.t.load(a.code, modules, check)
		if err != nil {
			return err
		}
		busy.Store(false)
		if err := writeVerdict(out, v); err != nil {
			return err
		}
		debug.FreeOSMemory()
	}
	return nil
}

// SelfCommand returns the command line that starts this program with one argument.
// On Linux it is the file that runs, even if it has been replaced since.
func SelfCommand(arg string) ([]string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return []string{running, arg}, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("wasm: child: %w", err)
	}
	return []string{path, arg}, nil
}

// readTrial reads the next trial; io.EOF = no more.
func readTrial(in io.Reader) (t *trial, code []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > childHeader {
		return nil, nil, fmt.Errorf("head of %d bytes, at most %d", n, childHeader)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, nil, err
	}
	t = new(trial)
	if err := json.Unmarshal(head, t); err != nil {
		return nil, nil, err
	}
	if t.Size < 0 || t.Size > maxModuleBytes {
		return nil, nil, fmt.Errorf("module of %d bytes, at most %d", t.Size, maxModuleBytes)
	}
	code = make([]byte, t.Size)
	_, err = io.ReadFull(in, code)
	return t, code, err
}

func writeVerdict(out io.Writer, v verdict) error {
	if len(v.Err) > childAnswer/8 { // JSON takes up to six bytes for one
		v.Err = v.Err[:childAnswer/8]
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// load is Runtime.Load in a child.
func (t *trial) load(code []byte, modules []*HostModule,
	check func(context.Context, *Runtime, *Plugin) error) (v verdict, err error) {
	if err := limitProcessor(); err != nil {
		return v, err
	}
	ctx := context.Background()
	r, err := New(ctx, Config{CacheDir: t.CacheDir, Modules: modules, Check: check})
	if err != nil {
		return v, err
	}
	for name, def := range t.Published {
		c, _ := r.board.open(name, def, true)
		defer r.board.release(c)
	}
	p, err := r.Load(ctx, code, t.Options)
	if le, ok := errors.AsType[*LoadError](err); ok {
		v, err = verdict{le.Step, le.Err.Error()}, nil
	}
	if p != nil {
		p.Close()
	}
	return v, errors.Join(err, r.Close())
}
