# A naive policy: each rule looks correct, but is undefined if the record lacks a
# field that it reads. The mutation test must fail for it.
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
