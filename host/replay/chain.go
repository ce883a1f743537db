package replay

// chainer turns the block names of one conversation's prompts into chains. Prompts
// that continue each other share memory, so that a conversation of n requests
// takes little more than its last prompt.
type chainer struct {
	names []uint64
	chain []uint64
}

// add returns the chain of a prompt: chain[i] names the blocks [0, i] of the prompt,
// so that equal names mean equal prompts up to there. The result must not be changed;
// names is not kept.
func (c *chainer) add(names []uint64) []uint64 {
	n := 0
	for n < len(names) && n < len(c.names) && names[n] == c.names[n] {
		n++
	}
	if n == len(names) {
		return c.chain[:n:n]
	}
	if n < len(c.names) { // earlier prompts keep what they have
		c.names = append(make([]uint64, 0, 2*len(names)), c.names[:n]...)
		c.chain = append(make([]uint64, 0, 2*len(names)), c.chain[:n]...)
	}
	h := uint64(0)
	if n > 0 {
		h = c.chain[n-1]
	}
	for _, b := range names[n:] {
		h = mix(h, b)
		c.names = append(c.names, b)
		c.chain = append(c.chain, h)
	}
	return c.chain[:len(names):len(names)]
}
