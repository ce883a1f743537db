# METADATA
# title: Who may use which model
# description: |
#   Every reason to refuse a request. Each condition is a separate rule, and a
#   denial is "not" that rule: if any field that the rule reads is missing, the
#   rule is undefined and the request is refused. (In one line, as in
#   "not f(tenant.pools)", a missing field would make the denial undefined: OPA
#   evaluates arguments before the not.)
package kvasir.admission

tenant := data.tenants[input.tenant.id]

# The model that is used: the site's rewrite, else the requested model. A rewrite
# must pass the same checks as a request for that model.
model := data.site.model

model := input.request.model if not data.site.model

# METADATA
# labels: {id: input_version}
denials contains "policy_input" if not version_known

version_known if input.version == "1"

# METADATA
# labels: {id: tenant_unknown}
denials contains "tenant_unknown" if not tenant_known

tenant_known if is_object(tenant)

# METADATA
# labels: {id: tenant_disabled}
denials contains "tenant_disabled" if {
	tenant_known
	not tenant_enabled
}

tenant_enabled if tenant.enabled == true

# METADATA
# title: A record must have pools, otherwise it would have no constraint
# labels: {id: tenant_pools_missing}
denials contains "tenant_misconfigured" if {
	tenant_known
	not pools_said
}

pools_said if some_names(tenant.pools)

# METADATA
# title: A record must state its regions
# labels: {id: tenant_regions_missing}
denials contains "tenant_misconfigured" if {
	tenant_known
	not regions_said
}

regions_said if tenant.regions == "any"

regions_said if some_names(tenant.regions)

# METADATA
# title: Each limit is required, because a missing limit would be no limit
# labels: {id: tenant_limits_missing}
denials contains "tenant_misconfigured" if {
	tenant_known
	not limits_said
}

limits_said if {
	is_number(tenant.limits.max_prompt_tokens)
	is_number(tenant.limits.max_output_tokens)
	is_number(tenant.limits.max_concurrency)
	is_number(tenant.limits.tokens_per_minute)
	is_number(tenant.limits.requests_per_minute)
}

# METADATA
# title: Priorities name at least one class of data.classes
# labels: {id: tenant_priorities_missing}
denials contains "tenant_misconfigured" if {
	tenant_known
	count(classes) == 0
}

# The priority classes that the tenant may request.
classes contains name if {
	tenant.priorities[name] == true
	is_number(data.classes[name].priority)
}

# METADATA
# labels: {id: auth_method_not_allowed}
denials contains "auth_method_not_allowed" if {
	tenant_known
	not auth_method_allowed
}

auth_method_allowed if tenant.auth_methods[input.tenant.auth.method] == true

# METADATA
# labels: {id: model_not_allowed}
denials contains "model_not_allowed" if {
	tenant_known
	not model_allowed
}

model_allowed if may_use(input.request.model)

# METADATA
# title: A rewrite by the site stays within the tenant's models
# labels: {id: rewrite_not_allowed}
denials contains "model_not_allowed" if {
	tenant_known
	model != input.request.model
	not rewrite_allowed
}

rewrite_allowed if may_use(model)

may_use(name) if tenant.models[name] == true

may_use(name) if {
	name != ""
	tenant.models["*"] == true
}

# METADATA
# labels: {id: adapter_not_allowed}
denials contains "adapter_not_allowed" if {
	tenant_known
	not adapter_allowed
}

adapter_allowed if input.request.adapter == ""

adapter_allowed if tenant.adapters[input.request.adapter] == true

# METADATA
# title: Denials of the site
# labels: {id: site_denial}
denials contains reason if {
	some reason in data.site.denials
	is_reason(reason)
}

# METADATA
# title: A site's rule of another type denies; it is not ignored
# labels: {id: site_misconfigured}
denials contains "site_misconfigured" if site_misconfigured

site_misconfigured if {
	found := data.site.denials
	not is_set(found)
}

site_misconfigured if {
	some reason in data.site.denials
	not is_reason(reason)
}

site_misconfigured if {
	found := data.site.constraints
	not is_set(found)
}

is_reason(reason) if {
	is_string(reason)
	regex.match(`^[a-z0-9_]{1,64}$`, reason)
}

some_names(list) if {
	is_array(list)
	count(list) > 0
	every name in list {
		is_string(name)
		name != ""
	}
}
