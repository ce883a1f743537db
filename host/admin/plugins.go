package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

func (s *Server) listPlugins(c *call, _ *None) (PluginList, error) {
	list, err := s.cfg.Plugins.Plugins(c.context())
	return PluginList{list}, err
}

// push stores the module in the body. To activate it at once the sender needs
// plugin:activate too; policy sees that the sender is its author.
func (s *Server) push(c *call, q *PushRequest) (*PluginChange, error) {
	if q.Activate {
		if err := c.permitted(Question{Verb: ScopePluginActivate, Object: "plugin/" + q.Name, Own: true}); err != nil {
			return nil, err
		}
	}
	if err := readBody(c, q); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(q.Code)
	a := auditedAction{ActionPluginPush, "plugin/" + q.Name, map[string]string{
		"digest":   hex.EncodeToString(sum[:]),
		"activate": strconv.FormatBool(q.Activate),
		"shadow":   strconv.FormatBool(q.Shadow),
	}}
	return audited(c, a, func(ctx context.Context) (*PluginChange, error) {
		who := c.principal.Name()
		switch {
		case q.Activate && q.Shadow:
			return nil, fmt.Errorf("%w: give either activate or shadow", ErrRefused)
		case q.Shadow:
			return s.cfg.Plugins.Shadow(ctx, q.Name, q.Code, who)
		}
		return s.cfg.Plugins.Push(ctx, q.Name, q.Code, q.Activate, who)
	})
}
