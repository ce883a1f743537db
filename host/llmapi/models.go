package llmapi

import "strconv"

// Model is one entry of the model list.
type Model struct {
	ID          string
	Created     int64  // Unix seconds
	MaxModelLen int    // tokens of context, in vLLM's field; 0 = left out
	Root        string // name that an alias refers to, "" = left out
}

// AppendModels appends the answer of GET /v1/models.
func AppendModels(dst []byte, models []Model) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, &models[i])
	}
	return append(dst, "]}"...)
}

// AppendModel appends the answer of GET /v1/models/{id}.
func AppendModel(dst []byte, m *Model) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendQuoted(dst, m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.Created, 10)
	dst = append(dst, `,"owned_by":"kvasir"`...)
	if m.Root != "" {
		dst = append(dst, `,"root":`...)
		dst = appendQuoted(dst, m.Root)
	}
	if m.MaxModelLen > 0 {
		dst = append(dst, `,"max_model_len":`...)
		dst = strconv.AppendInt(dst, int64(m.MaxModelLen), 10)
	}
	return append(dst, '}')
}
