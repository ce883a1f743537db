# METADATA
# title: Which endpoints, and who shares cached blocks
# description: |
#   Constraints are demands on the labels of endpoints; the router keeps only
#   endpoints that meet all of them. The cache scope names those who share
#   cached blocks.
package kvasir.isolation

import data.kvasir.admission.tenant

# METADATA
# labels: {id: tenant_pools}
constraints contains {"label": "pool", "op": "in", "values": pools}

# A constraint without values is met by no endpoint: that is what a record
# without the field would get, if admission had not refused it.
default pools := []

pools := tenant.pools

# METADATA
# title: Data residency
# labels: {id: tenant_regions}
constraints contains {"label": "region", "op": "in", "values": regions} if not any_region

any_region if tenant.regions == "any"

regions := [region | some region in tenant.regions]

# METADATA
# title: What the site adds; all must hold, so it narrows
# labels: {id: site_constraint}
constraints contains found if some found in data.site.constraints

# METADATA
# title: Without a word about sharing, nothing is shared
# labels: {id: cache_none}
default cache := {"scope": "none"}

# METADATA
# labels: {id: cache_tenant}
cache := {"scope": "tenant"} if tenant.cache == "tenant"

# METADATA
# title: One namespace per user; a caller without a user shares with nobody
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
# title: A group that does not list the tenant is not shared with
# labels: {id: cache_group_one_sided}
cache := {"scope": "tenant"} if {
	tenant.cache == "group"
	not agreed
}

# METADATA
# title: No salt; the router must allow it too
# labels: {id: cache_public}
cache := {"scope": "public"} if tenant.cache == "public"

# Both sides: the tenant names the group, and the group lists the tenant.
agreed if data.trust_groups[tenant.trust_group].members[input.tenant.id] == true
