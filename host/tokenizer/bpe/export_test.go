package bpe

// EmptyCaches empties the caches of the idle encoders, for measurements.
func (t *Tokenizer) EmptyCaches() {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	for _, e := range t.pool.idle {
		e.reset()
	}
}
