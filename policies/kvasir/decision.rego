# METADATA
# scope: subpackages
# schemas:
# - input: schema.input
# - data.kvasir.admission.tenant: schema.tenant
# - data.kvasir.affinity.class: schema.class

# METADATA
# title: The decision
# description: The document that the router evaluates. It denies unless every check passes.
package kvasir

import data.kvasir.admission
import data.kvasir.affinity
import data.kvasir.isolation

# METADATA
# title: Denied by default
# entrypoint: true
# labels: {id: default_deny}
default decision := {"allow": false, "reason": "policy_undefined", "status": 503}

# METADATA
# title: No reason to refuse
# labels: {id: allow}
decision := {
	"allow": true,
	"model": admission.model,
	"constraints": isolation.constraints,
	"prefer": affinity.prefer,
	"cache": isolation.cache,
	"affinity": affinity.settings,
	"priority": affinity.priority,
	"rate_class": rate_class,
	"limits": admission.tenant.limits,
	"profile": profile,
	"audit": audit,
} if {
	count(admission.denials) == 0
}

# METADATA
# title: Refused, with the first reason of the list below
# labels: {id: deny}
decision := {"allow": false, "reason": reason, "status": status, "audit": "full"} if {
	count(admission.denials) > 0
}

reason := shipped[0]

# A reason of the site is reported if there is no shipped reason.
reason := min(admission.denials) if count(shipped) == 0

shipped := [name | some name in order; name in admission.denials]

order := [
	"policy_input", "tenant_unknown", "tenant_disabled", "tenant_misconfigured", "site_misconfigured",
	"auth_method_not_allowed", "model_not_allowed", "adapter_not_allowed",
]

# Clients may retry after an error of the input, the data or the site's rules, not after a refusal.
default status := 403

status := 503 if reason in {"policy_input", "tenant_misconfigured", "site_misconfigured"}

# The site lists its reasons after which a later attempt may succeed.
status := 429 if {
	count(shipped) == 0
	reason in data.site.retry
}

default rate_class := "default"

rate_class := admission.tenant.rate_class

default profile := ""

profile := admission.tenant.profile

# A tenant without the field audit is logged in full.
default audit := "full"

audit := admission.tenant.audit
