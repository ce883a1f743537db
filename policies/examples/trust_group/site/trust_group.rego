package site

import data.kvasir.admission.tenant

# METADATA
# title: Who asks for a group and is not in it is told, not served alone
# description: |
#   The shipped rule falls back to the tenant's own namespace. This one makes the
#   disagreement of the two sides visible.
# labels: {id: trust_group_one_sided}
denials contains "trust_group_one_sided" if {
	tenant.cache == "group"
	not group_agrees
}

group_agrees if data.trust_groups[tenant.trust_group].members[input.tenant.id] == true
