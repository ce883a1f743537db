// Package placements is the format in which the decision log keeps placements, so
// that recorded traffic can be replayed, explained and analyzed.
//
// A line of the decision log whose request is in the sample has the member
// "placement" (type [Placement]). When the request has ended, a second line with the
// path [OutcomePath] and the same decision_id follows (type [Outcome]). [Read] joins
// the two. A line contains no prompt: a prompt is its length and the hashes of its
// blocks, encrypted with a key that only the running router has ([Key]).
//
// The package imports nothing of the router, so that tools can read a log without it.
package placements

// OutcomePath is the path of the lines that say how a request ended.
const OutcomePath = "kvasir/outcome"

// Version is the version of the format. A reader must ignore members that it does
// not know, and refuse another version.
const Version = 1

// Bounds of one line. A chain of 512 hashes is 4 KiB of text.
const (
	MaxBlocks     = 512
	MaxCandidates = 64
)

// Placement says where a request was placed, among which candidates, by what.
type Placement struct {
	Version int `json:"v"`

	Model     string `json:"model"`
	Adapter   string `json:"adapter,omitempty"`
	Operation string `json:"operation"`
	Profile   string `json:"profile"`
	Objective string `json:"objective"`
	Kind      string `json:"kind"`
	Arm       string `json:"arm"`
	Revision  uint64 `json:"revision"` // of the rules

	PromptTokens int    `json:"prompt_tokens"`
	Exact        bool   `json:"exact"`                // PromptTokens is no estimate, and Blocks is known
	Inexact      string `json:"inexact,omitempty"`    // why not
	MaxTokens    int    `json:"max_tokens,omitempty"` // output asked for, 0 = not limited
	BodyBytes    int    `json:"body_bytes"`
	Session      string `json:"session,omitempty"` // keyed hash of the client's session

	// Key identifies the key of Blocks: hashes of different keys cannot be compared. A
	// router makes a key when it starts.
	Key string `json:"key,omitempty"`
	// BlockTokens is the number of tokens between two hashes of Blocks.
	BlockTokens int `json:"block_tokens,omitempty"`
	// Blocks is the encrypted hashes of the prompt's prefixes of BlockTokens, 2 ×
	// BlockTokens, … tokens, at most MaxBlocks.
	Blocks Chain `json:"blocks,omitempty"`

	Candidates []Candidate `json:"candidates"` // the chosen one first, then by preference, at most MaxCandidates
	Omitted    int         `json:"omitted_candidates,omitempty"`
	QueuedMS   float64     `json:"queued_ms,omitempty"`
}

// Candidate is one endpoint of the model's pools.
type Candidate struct {
	Endpoint string             `json:"endpoint"`
	State    string             `json:"state"` // kept, filtered, enveloped
	Reason   string             `json:"reason,omitempty"`
	Matched  map[string]int     `json:"matched_tokens"` // by tier: gpu, host, disk
	Columns  map[string]float32 `json:"columns,omitempty"`
	Scores   map[string]float32 `json:"scores,omitempty"` // by plugin
	Total    float32            `json:"total"`            // what the pick compared, higher is better
}

// Outcome reports how a placed request ended.
type Outcome struct {
	Endpoint string  `json:"endpoint"` // after retries
	Status   int     `json:"status"`
	Error    string  `json:"error,omitempty"`
	Retries  int     `json:"retries,omitempty"`
	TTFTMS   float64 `json:"ttft_ms"` // 0 = no byte came
	E2EMS    float64 `json:"e2e_ms"`

	// As the engine reported them; absent where it did not.
	PromptTokens *int `json:"prompt_tokens,omitempty"`
	OutputTokens *int `json:"output_tokens,omitempty"`
	CachedTokens *int `json:"cached_tokens,omitempty"`
	// PredictedCached is the prompt tokens that the endpoint was expected to reuse.
	PredictedCached int `json:"predicted_cached_tokens"`
}
