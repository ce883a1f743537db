// Package fleet tests the whole router in front of simulated engines, each in its own
// process: agentic load, isolation of tenants, failure of an engine, and the official
// clients.
package fleet
