// Package scenario runs placement policies over workloads in virtual time and
// compares them: several seeds, means with confidence intervals, tables.
package scenario
