//go:build long

package host

// metaSequences is how many sequences TestRules_metamorphic does.
const metaSequences = 1000
