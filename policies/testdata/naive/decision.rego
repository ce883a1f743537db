# A policy as one would write it first: every rule reads well, and a field that a
# record loses takes its rule along. The mutation test must object to it.
package kvasir

default decision := {"allow": false, "reason": "denied"}

tenant := data.tenants[input.tenant.id]

decision := {"allow": true, "constraints": constraints, "cache": cache, "limits": limits} if {
	not tenant.enabled == false
	tenant.models[input.request.model]
}

constraints contains {"label": "pool", "op": "in", "values": tenant.pools}

constraints contains {"label": "region", "op": "in", "values": tenant.regions} if is_array(tenant.regions)

default cache := {"scope": "tenant"}

cache := {"scope": tenant.cache} if tenant.cache in {"user", "none", "public"}

default limits := {}

limits := tenant.limits
