package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// devDriverCommand is a driver of the autoscaler that starts and stops simulated
// engines on this machine; kvasir dev --autoscale uses it, and it shows what a
// driver has to do (autoscale.Command): read one JSON request, start or stop
// machines until as many exist as it asks for, and answer with all that exist.
func devDriverCommand() *cobra.Command {
	c := &cobra.Command{
		Use:    "dev-driver DIR -- [flags of kvasir engine]",
		Short:  "driver that starts and stops simulated engines on this machine",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		d := devDriver{dir: args[0], flags: args[1:]}
		return d.run(cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return c
}

// devDriver keeps its machines in DIR/machines.json, under a lock: a call that timed
// out and the next one never run at the same time.
type devDriver struct {
	dir      string
	flags    []string
	machines []devMachine
	made     int
}

type devMachine struct {
	autoscale.Machine
	PID int `json:"pid"`
}

// devState is the file.
type devState struct {
	Made     int          `json:"made"` // machines ever started, for their ids
	Machines []devMachine `json:"machines"`
}

func (d *devDriver) run(in io.Reader, out io.Writer) error {
	var q struct {
		Op string `json:"op"`
		autoscale.Order
	}
	if err := json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&q); err != nil {
		return exit(exitUsage, "request on standard input: %v", err)
	}
	unlock, err := lockDir(d.dir)
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	defer unlock()
	if err := d.load(); err != nil {
		return exit(exitNo, "%v", err)
	}
	if q.Op == "apply" {
		err = d.apply(&q.Order)
	}
	if e := d.save(); err == nil {
		err = e
	}
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	a := autoscale.Answer{Machines: []autoscale.Machine{}}
	for _, m := range d.machines {
		a.Machines = append(a.Machines, m.Machine)
	}
	return json.NewEncoder(out).Encode(a)
}

// apply starts or stops machines until o.Desired exist.
func (d *devDriver) apply(o *autoscale.Order) error {
	stop := func(i int) {
		syscall.Kill(d.machines[i].PID, syscall.SIGTERM)
		d.machines = slices.Delete(d.machines, i, i+1)
	}
	for i := len(d.machines) - 1; i >= 0; i-- {
		if slices.Contains(o.Remove, d.machines[i].ID) {
			stop(i)
		}
	}
	for len(d.machines) > o.Desired { // cancelled before they serve: the youngest
		stop(len(d.machines) - 1)
	}
	for len(d.machines) < o.Desired {
		if err := d.start(); err != nil {
			return err
		}
	}
	return nil
}

// start starts one engine and waits for the line with its addresses.
func (d *devDriver) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	log, err := os.OpenFile(filepath.Join(d.dir, "engines.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.Close()
		return err
	}
	defer log.Close()
	c := exec.Command(self, append([]string{"engine", "--json", "--port", "0"}, d.flags...)...)
	c.Stdout, c.Stderr = w, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this call
	err = c.Start()
	w.Close()
	if err != nil {
		return err
	}
	r.SetReadDeadline(time.Now().Add(20 * time.Second))
	var line engineLine
	b, err := bufio.NewReader(r).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(b, &line)
	}
	if err != nil {
		c.Process.Kill()
		return fmt.Errorf("the engine did not start: %w", err)
	}
	d.made++
	d.machines = append(d.machines, devMachine{
		Machine: autoscale.Machine{ID: fmt.Sprintf("engine-%d", d.made), URL: line.URL, Events: line.Events,
			Replay: line.Replay}, PID: line.PID,
	})
	return c.Process.Release()
}

// load reads the file; machines that ended are dropped.
func (d *devDriver) load() error {
	b, err := os.ReadFile(d.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s devState
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w", d.file(), err)
	}
	d.made = s.Made
	for _, m := range s.Machines {
		if syscall.Kill(m.PID, 0) == nil {
			d.machines = append(d.machines, m)
		}
	}
	return nil
}

func (d *devDriver) save() error {
	b, err := json.Marshal(devState{d.made, d.machines})
	if err != nil {
		return err
	}
	return os.WriteFile(d.file(), b, 0o600)
}

func (d *devDriver) file() string { return filepath.Join(d.dir, "machines.json") }

// lockDir locks a directory against other processes until unlock is called.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
