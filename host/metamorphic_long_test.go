//go:build long

package host

// metaSequences is the number of sequences that TestRules_metamorphic runs.
const metaSequences = 1000
