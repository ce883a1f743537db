// Package wasm loads, meters and calls placement plugins: core WebAssembly
// modules that speak the ABI of abi/SPEC.md. It is the only package that knows
// the engine (wazero).
//
// A Runtime is one trust domain: one engine, one compile cache, the modules
// its guests may import. Load checks a module step by step, rewrites it so
// that every instruction is paid for in fuel, measures what it costs and
// returns a Plugin: an immutable rule that owns instances and is closed by the
// holder of its generation. A Plugin is called with columns and answers in
// the same call; it never blocks, starts no goroutine and makes no instance
// on the caller's time. Instances lost to faults are made again, and plugins
// in quarantine probed, by Runtime.Run.
//
// What is loaded is compiled and tried by a child process first, if the Config
// names a program for it: one that calls ServeChild with the modules its guests
// may import, early in main. SelfCommand is the command line of the same program.
//
// A guest is bounded in time, memory and reach, but it shares the process: the
// engine's compiled code is no wall between hostile tenants.
package wasm
