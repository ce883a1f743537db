package site

import data.kvasir.admission.tenant

# METADATA
# title: A tenant that names a group which does not list it is refused
# description: |
#   The shipped rule falls back to the tenant's own namespace. This rule makes the
#   mismatch of the two records visible.
# labels: {id: trust_group_one_sided}
denials contains "trust_group_one_sided" if {
	tenant.cache == "group"
	not group_agrees
}

group_agrees if data.trust_groups[tenant.trust_group].members[input.tenant.id] == true
