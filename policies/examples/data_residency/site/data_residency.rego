package site

import data.kvasir.admission.tenant

# METADATA
# title: Requests of a tenant under a jurisdiction are computed there
# description: |
#   The regions of the record are already a constraint. This rule checks the
#   record: it must not name a region outside the jurisdiction.
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
