package proxy

import (
	"maps"
	"sync"
)

// maxWords bounds the words a wordMap tells apart; further ones are counted as
// "other". The words are codes of refusals and kinds of failures: a few dozen.
const maxWords = 64

// wordMap counts by word: for what is rare. The zero value is ready.
type wordMap struct {
	mu sync.Mutex // guards m
	m  map[string]uint64
}

func (w *wordMap) add(word string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[string]uint64{}
	}
	if _, ok := w.m[word]; !ok && len(w.m) >= maxWords {
		word = "other"
	}
	w.m[word]++
}

func (w *wordMap) load() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.m)
}
