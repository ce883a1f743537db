// Package fleet holds the tests of the whole router before simulated engines,
// each a process of its own: agentic load, isolation of tenants, death of an
// engine, and the official clients.
package fleet
