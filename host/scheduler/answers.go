package scheduler

import (
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// An answer of the responses API may be continued (previous_response_id): the
// engine that gave it keeps the conversation, under an id that it does not tie to
// anybody. So the router remembers which tenant got which id and from where, and
// refuses every other: one tenant's conversation is never continued by another.
// Where policy keeps the cache of a tenant's users apart, so are their answers.

// answerKey names an answer. Tenants and models never meet; user is "" where a
// tenant's users share their cache.
type answerKey struct{ tenant, user, model, id string }

// answersOf returns whose answers a request may continue.
func (d *decision) answersOf() (tenant, user string) {
	p := d.r.Principal
	if p == nil {
		return "", ""
	}
	if d.ownUser() {
		user = p.User
	}
	return p.Tenant, user
}

// Answered notes that the target keeps the answer under id.
func (p *Placement) Answered(id string) {
	c := &p.order[p.at]
	p.st.answers.set(answerKey{p.tenant, p.user, p.model, id}, home{c.id, c.gen})
}

// continues finds the one endpoint that keeps the answer the request continues.
// It reports false if the request continues none.
func (d *decision) continues() (h home, bound bool, err *DeniedError) {
	id := d.r.API.PreviousResponse
	if id == "" {
		return h, false, nil
	}
	k := answerKey{model: d.model.name, id: id}
	k.tenant, k.user = d.answersOf()
	h, ok := d.s.st.answers.get(k)
	if !ok || !d.snap.Current(h.id, h.epoch) {
		return h, true, errAnswer()
	}
	return h, true, nil
}

func errAnswer() *DeniedError {
	e := deny(llmapi.CodeResponseNotFound, "no response of that id is kept for you: it is too old, was not stored, or its engine is gone; send the whole conversation as input")
	e.Param = "previous_response_id"
	return e
}

// unsalted reports whether an engine would mix the request's cache with other
// tenants': it ignores cache salts in this operation.
func (d *decision) unsalted(id endpoint.ID) bool {
	return d.snap.NoSalt[id]&(1<<d.r.API.Op) != 0
}
