// Package engine holds the tests of the router before real engines: upstream
// vLLM on the CPU with a tiny model, and llama.cpp's own server. They run under
// the build tag engine (make test-engine); scripts/deps-engine.sh installs the
// engines into the cache folder.
package engine
