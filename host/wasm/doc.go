// Package wasm loads, meters and calls placement plugins: core WebAssembly
// modules that speak the ABI of abi/SPEC.md. It is the only package that knows
// the engine (wazero).
//
// A Runtime is one trust domain: one engine, one compile cache, the modules
// its guests may import. Load checks a module step by step, rewrites it so
// that every instruction consumes fuel, measures the cost of its calls and
// returns a Plugin, which is immutable, owns instances and is closed by the
// revision of rules that holds it. A Plugin is called with columns and returns its
// results from the same call; it never blocks, starts no goroutine and creates no
// instance during a call. Runtime.Run replaces instances that were lost to faults
// and probes plugins in quarantine.
//
// If Config.Child is set, a child process compiles and tries each module first. The
// child is a program that calls ServeChild early in main, with the modules that
// guests may import. SelfCommand returns the command line of the running program.
//
// A guest is limited in time, memory and reach, but it shares the process: compiled
// code is not a security boundary between hostile tenants.
package wasm
