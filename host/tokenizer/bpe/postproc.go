package bpe

import (
	"encoding/json"
	"fmt"
)

// postProcessor holds any of the supported kinds; Kind selects.
type postProcessor struct {
	Kind       string            `json:"type"`
	Processors []json.RawMessage `json:"processors"`
	Single     []map[string]struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	} `json:"single"`
	Special map[string]struct {
		ID     string   `json:"id"`
		IDs    []uint32 `json:"ids"`
		Tokens []string `json:"tokens"`
	} `json:"special_tokens"`
}

// parsePostProcessor returns the ids that surround one text encoded with special
// tokens. It supports null, ByteLevel (offsets only), TemplateProcessing and
// sequences of them.
func parsePostProcessor(raw json.RawMessage) (prefix, suffix []uint32, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	const part = "post_processor"
	var p postProcessor
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, nil, unsupported(part, err.Error())
	}
	switch p.Kind {
	case "ByteLevel":
		return nil, nil, nil
	case "TemplateProcessing":
		return p.template()
	case "Sequence":
		for _, x := range p.Processors {
			a, b, err := parsePostProcessor(x)
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(a, prefix...), append(suffix, b...)
		}
		return prefix, suffix, nil
	}
	return nil, nil, unsupported(part, fmt.Sprintf("%q", p.Kind))
}

func (p *postProcessor) template() (prefix, suffix []uint32, err error) {
	const part = "post_processor"
	seen := false
	for _, piece := range p.Single {
		if seq, ok := piece["Sequence"]; ok {
			if seen || seq.ID != "A" {
				return nil, nil, unsupported(part, "template with another sequence than one A")
			}
			seen = true
			continue
		}
		tok, ok := p.Special[piece["SpecialToken"].ID]
		if !ok {
			return nil, nil, unsupported(part, fmt.Sprintf("template with unknown token %q", piece["SpecialToken"].ID))
		}
		if seen {
			suffix = append(suffix, tok.IDs...)
		} else {
			prefix = append(prefix, tok.IDs...)
		}
	}
	if !seen {
		return nil, nil, unsupported(part, "template without the text")
	}
	return prefix, suffix, nil
}
