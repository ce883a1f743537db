package policy

import "github.com/kvasir-router/kvasir/host/identity"

// inputFields declares the input document, field by field, in its order: the fields of
// one object are consecutive. The references that rules may make, the key of the cache,
// the document, ParseInput, the copies and checks of inputs, the flags of kvasir policy
// explain, the schema and the table of policies/README.md follow from it. To add a field,
// add a member to Input, a row here, and the place that fills it in; then run make
// generate.
var inputFields = [...]inputField{
	constantField("version", "1").doc("`\"1\"`"),

	textField("tenant.id", func(in *Input) *string { return &in.Principal.Tenant }).credential().by("tenant", "").
		doc("the tenant, from a verified credential, never from a header or body, as all of `tenant`"),
	textField("tenant.user", func(in *Input) *string { return &in.Principal.User }).credential().by("user", "").
		doc("the user; empty if the credential names none"),
	listField("tenant.groups", func(in *Input) *[]string { return &in.Principal.Groups }).credential().by("group", "").
		doc("groups of the user or the key"),
	listField("tenant.scopes", func(in *Input) *[]string { return &in.Principal.Scopes }).credential().by("scope", "").
		doc("scopes of the credential"),
	textField("tenant.auth.method", func(in *Input) *string { return &in.Principal.Method }).credential().
		by("auth-method", identity.MethodAPIKey).
		doc("the kind of the credential: `api_key`, `jwt`, `mtls`, `proxy` or `anonymous`"),
	textField("tenant.auth.issuer", func(in *Input) *string { return &in.Principal.Issuer }).credential().by("issuer", "").
		doc("who issued the credential; empty if that is not known"),

	textField("request.operation", func(in *Input) *string { return &in.Operation }).by("operation", "chat.completions").
		doc("`chat.completions`, `completions`, `responses`, `messages`, `models` or `tokenize`"),
	textField("request.model", func(in *Input) *string { return &in.Model }).by("model", "").
		doc("the model, after aliases"),
	textField("request.adapter", func(in *Input) *string { return &in.Adapter }).by("adapter", "").
		doc("the LoRA adapter; empty if none is requested"),
	boolField("request.stream", func(in *Input) *bool { return &in.Stream }).by("stream", "").
		doc("whether the answer is to be streamed"),
	textField("request.priority", func(in *Input) *string { return &in.Priority }).by("priority", "").
		doc("the requested class; empty if there is none"),
	textField("request.size_class", func(in *Input) *string { return &in.SizeClass }).by("size-class", "s").
		doc("of the body in bytes: `xs`, `s`, `m`, `l` or `xl`. Prompts, token counts, headers and keys are not part of " +
			"the input"),
	labelsField("request.labels", func(in *Input) *[]Label { return &in.Labels }).by("label", "").
		doc("from key metadata, token claims, or headers that the configuration names"),

	textField("router.region", func(in *Input) *string { return &in.Region }).by("region", "").
		doc("where the router is; empty if the configuration does not say"),
	hourField("router.hour_utc", func(in *Input) *int { return &in.HourUTC }).by("hour", "").
		doc("the hour, 0 to 23"),
	textField("router.capacity_state", func(in *Input) *string { return &in.CapacityState }).by("capacity-state", "ok").
		doc("room in the model's pools: `ok`, `scarce` or `none`"),
}
