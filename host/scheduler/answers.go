package scheduler

import (
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// An answer of the responses API may be continued (previous_response_id): the engine
// that gave it keeps the conversation, under an id that it does not tie to a tenant.
// So the router records which tenant got which id from which endpoint, and refuses
// every other tenant. Where policy separates the caches of a tenant's users, it
// separates their answers too.

// answerKey identifies an answer within a tenant and a model; user is "" where a
// tenant's users share their cache.
type answerKey struct{ tenant, user, model, id string }

// answerOwner returns the tenant, and the user if users are separate, whose answers the
// request may continue.
func (d *decision) answerOwner() (tenant, user string) {
	p := d.r.Principal
	if p == nil {
		return "", ""
	}
	if d.ownUser() {
		user = p.User
	}
	return p.Tenant, user
}

// Answered records that the target keeps the answer under id.
func (p *Placement) Answered(id string) {
	c := &p.order[p.at]
	p.st.answers.set(answerKey{p.tenant, p.user, p.model, id}, home{id: c.id, epoch: c.epoch})
}

// continuedAnswer returns the endpoint that keeps the answer that the request
// continues. bound is false if the request continues none.
func (d *decision) continuedAnswer() (h home, bound bool, err *DeniedError) {
	id := d.r.API.PreviousResponse
	if id == "" {
		return h, false, nil
	}
	k := answerKey{model: d.model.name, id: id}
	k.tenant, k.user = d.answerOwner()
	h, ok := d.s.st.answers.get(k)
	if !ok || !d.snap.Current(h.id, h.epoch) {
		return h, true, errAnswer()
	}
	return h, true, nil
}

func errAnswer() *DeniedError {
	e := deny(llmapi.CodeResponseNotFound,
		"No response with this id is available to you: it expired, was not stored, or its engine was removed. "+
			"Send the whole conversation as input.")
	e.Param = "previous_response_id"
	return e
}

// ignoresSalt reports whether an engine ignores cache salts in the request's operation,
// and so would share its cache with other tenants.
func (d *decision) ignoresSalt(id endpoint.ID) bool {
	return d.snap.NoSalt[id]&(1<<d.r.API.Op) != 0
}
