# METADATA
# title: Which endpoints, and which requests share cached blocks
# description: |
#   Constraints restrict the labels of endpoints; the router keeps only
#   endpoints that meet all of them. The cache scope defines which requests
#   share cached blocks.
package kvasir.isolation

import data.kvasir.admission.tenant

# METADATA
# labels: {id: tenant_pools}
constraints contains {"label": "pool", "op": "in", "values": pools}

# No endpoint meets a constraint without values: a record without the field
# would have such a constraint, if admission did not refuse it.
default pools := []

pools := tenant.pools

# METADATA
# title: Data residency
# labels: {id: tenant_regions}
constraints contains {"label": "region", "op": "in", "values": regions} if not any_region

any_region if tenant.regions == "any"

regions := [region | some region in tenant.regions]

# METADATA
# title: Constraints of the site; all must hold, so they narrow
# labels: {id: site_constraint}
constraints contains found if some found in data.site.constraints

# METADATA
# title: Without the field cache, nothing is shared
# labels: {id: cache_none}
default cache := {"scope": "none"}

# METADATA
# labels: {id: cache_tenant}
cache := {"scope": "tenant"} if tenant.cache == "tenant"

# METADATA
# title: One namespace per user; a request without a user shares nothing
# labels: {id: cache_user}
cache := {"scope": "user"} if {
	tenant.cache == "user"
	input.tenant.user != ""
}

# METADATA
# title: One namespace for a trust group
# labels: {id: cache_group}
cache := {"scope": "group", "group": tenant.trust_group} if {
	tenant.cache == "group"
	agreed
}

# METADATA
# title: A tenant that the group does not list has its own namespace
# labels: {id: cache_group_one_sided}
cache := {"scope": "tenant"} if {
	tenant.cache == "group"
	not agreed
}

# METADATA
# title: No salt; the router must allow it too
# labels: {id: cache_public}
cache := {"scope": "public"} if tenant.cache == "public"

# Both are required: the tenant names the group, and the group lists the tenant.
agreed if data.trust_groups[tenant.trust_group].members[input.tenant.id] == true
