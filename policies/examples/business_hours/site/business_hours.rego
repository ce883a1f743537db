package site

# METADATA
# title: Tenants with hours are served only within them
# description: |
#   From the hour `from` until before the hour `to`, in UTC; 22 to 6 is a night.
#   The hour is part of the input: a decision that reads the clock cannot be cached.
# labels: {id: outside_business_hours}
denials contains "outside_business_hours" if {
	data.site_data.business_hours[input.tenant.id]
	not open
}

retry contains "outside_business_hours"

hours := data.site_data.business_hours[input.tenant.id]

open if {
	hours.from <= hours.to
	input.router.hour_utc >= hours.from
	input.router.hour_utc < hours.to
}

open if {
	hours.from > hours.to
	at_night
}

at_night if input.router.hour_utc >= hours.from

at_night if input.router.hour_utc < hours.to
