package host

import (
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Tokenize returns the token ids of a text, or of a chat request body, as the
// router counts them. library is auto, bpe or hf.
func Tokenize(dir, library string, in []byte, isChat bool) ([]uint32, error) {
	t := &config.Tokenizer{Dir: dir, TimeZone: "UTC", Library: library}
	if !isChat {
		e, err := encoder(t)
		if err != nil {
			return nil, err
		}
		return e.Encode([]uint32{}, in)
	}
	p, err := openPrompts(t, 0)
	if err != nil {
		return nil, err
	}
	var r llmapi.Request
	if err := r.Scan(llmapi.OpChat, in); err != nil {
		return nil, err
	}
	return p.chat.Tokens(&r, []uint32{})
}
