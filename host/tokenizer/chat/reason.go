package chat

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// Reasons why a prompt is not exact. They are few and constant, so that prompts
// can be counted by reason.
const (
	reasonDistrusted = "a check of the memo failed"
	reasonOperation  = "the operation has no prompt"
	reasonNoMessages = "no messages"
	reasonMessage    = "a message that the engine refuses"
	reasonMedia      = "multimodal content"
	reasonItem       = "an input item that is not shown to models"
	reasonToolChange = "tools that change within the conversation"
	reasonState      = "the previous conversation is known only to the engine"
	reasonTools      = "tools that the engine refuses"
	reasonDocuments  = "documents that the engine refuses"
	reasonKwargs     = "chat_template_kwargs that the engine refuses"
	reasonField      = "a field that the engine refuses"
	reasonTruncate   = "truncate_prompt_tokens is set"
	reasonContinue   = "the final message cannot be continued"
	reasonEmbeds     = "prompt_embeds"
	reasonSuffix     = "suffix is set"
	reasonPrompt     = "a prompt that the engine refuses"
	reasonPrompts    = "several prompts"
	reasonSpecial    = "special tokens of this tokenizer are not known"
	reasonRaised     = "the template refuses the conversation"
	reasonRender     = "the template fails on the conversation"
	reasonBounds     = "rendering exceeds its bounds"
	reasonUnknown    = "the template uses an unsupported feature"
	reasonEncode     = "the text cannot be encoded exactly"
)

// renderReason returns the reason for an error of a render.
func renderReason(err error) string {
	var raised *jinja.RaisedError
	var unsupported *jinja.UnsupportedError
	switch {
	case errors.As(err, &raised):
		return reasonRaised
	case errors.As(err, &unsupported):
		return reasonUnknown + ": " + unsupported.What
	case errors.Is(err, jinja.ErrSteps), errors.Is(err, jinja.ErrBytes), errors.Is(err, jinja.ErrDepth):
		return reasonBounds
	}
	return reasonRender
}
