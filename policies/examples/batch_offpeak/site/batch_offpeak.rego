package site

import data.kvasir.affinity

# METADATA
# title: Batch work is served at night, or while pools have capacity
# description: |
#   Requests of the lowest class are served at night, and by day while the pools
#   have capacity. Otherwise they are refused with status 429.
# labels: {id: batch_waits}
denials contains "batch_waits" if {
	batch
	not served_by_day
	not off_peak
}

retry contains "batch_waits"

batch if affinity.priority == data.site_data.batch_offpeak.priority

served_by_day if input.router.capacity_state == "ok"

off_peak if input.router.hour_utc >= data.site_data.batch_offpeak.from

off_peak if input.router.hour_utc < data.site_data.batch_offpeak.to
