// Package demo is a small model for trying Kvasir: a byte-level BPE tokenizer of
// 6,000 merges with Qwen's pre-tokenizer, and a ChatML template that supports
// tools. The simulated engine and many tests use it. Hugging Face tokenizers
// loads the same files and produces the same ids.
package demo

import (
	"embed"
	"io/fs"
	"sync"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
)

//go:generate go run ./train

//go:embed tokenizer.json tokenizer_config.json
var files embed.FS

// Files holds tokenizer.json and tokenizer_config.json, whose chat_template is
// the template of the model.
func Files() fs.FS { return files }

var load = sync.OnceValues(func() (*bpe.Tokenizer, error) {
	tokenizer, err := files.ReadFile("tokenizer.json")
	if err != nil {
		return nil, err
	}
	config, err := files.ReadFile("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	return bpe.ParseFiles(tokenizer, config)
})

// Tokenizer returns the tokenizer; every call returns the same one. It is safe
// for concurrent use.
func Tokenizer() (*bpe.Tokenizer, error) { return load() }
