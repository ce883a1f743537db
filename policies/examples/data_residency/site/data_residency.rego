package site

import data.kvasir.admission.tenant

# METADATA
# title: A tenant under a jurisdiction is computed there
# description: |
#   The record's own regions are a constraint already. This rule guards the
#   record: whoever may edit it cannot name a region outside the jurisdiction.
# labels: {id: residency_outside}
denials contains "residency_outside" if {
	data.site_data.residency.tenants[input.tenant.id]
	not within_jurisdiction
}

within_jurisdiction if {
	jurisdiction := data.site_data.residency.tenants[input.tenant.id]
	is_array(tenant.regions)
	every region in tenant.regions {
		data.site_data.residency.jurisdictions[jurisdiction][region] == true
	}
}
