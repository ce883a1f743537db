# METADATA
# title: Which principal may make which call of the admin API
# description: |
#   Evaluated for each call of the admin API. A verb is area:action; a scope is
#   a verb, area:* or *. Calls that no scope grants are refused.
# schemas:
# - input: schema.admin
package kvasir.admin

# METADATA
# title: Denied by default
# entrypoint: true
# labels: {id: admin_default_deny}
default allow := false

# METADATA
# labels: {id: admin_allow}
allow if {
	input.version == "1"
	count(refusals) == 0
}

# METADATA
# title: An administrator has a name from a verified credential
# labels: {id: admin_unidentified}
refusals contains "unidentified" if not identified

identified if {
	input.principal.id != ""
	input.principal.auth.method in {"admin_token", "api_key", "jwt", "mtls"}
}

# METADATA
# labels: {id: admin_scope_missing}
refusals contains "scope_missing" if not granted

verb_format := `^[a-z]+:[a-z]+$`

# METADATA
# labels: {id: admin_scope}
granted if {
	regex.match(verb_format, input.verb)
	input.verb in input.principal.scopes
}

# METADATA
# labels: {id: admin_area}
granted if {
	regex.match(verb_format, input.verb)
	concat(":", [split(input.verb, ":")[0], "*"]) in input.principal.scopes
}

# METADATA
# labels: {id: admin_all}
granted if {
	regex.match(verb_format, input.verb)
	"*" in input.principal.scopes
}

# METADATA
# title: Explaining a request of another tenant requires explain:any
# labels: {id: admin_explain_other}
refusals contains "explain_other_tenant" if {
	startswith(input.verb, "explain:")
	not own
	not explain_any
}

own if input.object.tenant == input.principal.tenant

explain_any if {
	some scope in {"explain:any", "explain:*", "*"}
	scope in input.principal.scopes
}

# METADATA
# title: Denials of the site
# labels: {id: admin_site_denial}
refusals contains reason if some reason in data.site.admin_denials

# METADATA
# title: A site's rule of another type denies
# labels: {id: admin_site_misconfigured}
refusals contains "site_misconfigured" if {
	found := data.site.admin_denials
	not is_set(found)
}
