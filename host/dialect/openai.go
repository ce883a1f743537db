package dialect

import "context"

// openAI is any server of the OpenAI API: health and the names of models, nothing
// else. Its cache is predicted from what is sent to it, and shared: it has no salt.
var openAI = Dialect{
	Name: "openai", Title: "any server of the OpenAI API",
	StreamUsage: true, NewLimits: true, WholePrompt: true, // it may be vLLM
	Health: "/v1/models", // the one path that every server has
	Discover: func(ctx context.Context, c *Client) (Capabilities, error) {
		models, maxLen, err := c.Models(ctx)
		return Capabilities{Models: models, MaxModelLen: maxLen}, err
	},
	AnyName: true,
}
