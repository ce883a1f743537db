package site

import data.kvasir.admission.tenant

# METADATA
# title: Other tenants cannot use a dedicated pool, even if their record names it
# labels: {id: dedicated_pool_closed}
constraints contains {"label": "pool", "op": "not_in", "values": closed_pools} if count(closed_pools) > 0

closed_pools := [pool | some pool, owner in data.site_data.dedicated_pools; owner != input.tenant.id]

# METADATA
# title: The owner of a dedicated pool uses no other pool
# labels: {id: dedicated_owner_strays}
denials contains "dedicated_owner_strays" if {
	input.tenant.id in owners
	not only_own_pools
}

owners := {owner | some owner in data.site_data.dedicated_pools}

only_own_pools if {
	every pool in tenant.pools {
		data.site_data.dedicated_pools[pool] == input.tenant.id
	}
}
