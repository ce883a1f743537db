package site.batch_offpeak_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

decide(priority, hour, capacity) := decided if {
	asked := object.union(ask("t1", {"priority": priority}), {"router": {"hour_utc": hour, "capacity_state": capacity}})
	decided := data.kvasir.decision with input as asked
		with data.tenants as {"t1": object.union(base, {"priorities": {"standard": true, "low": true}})}
		with data.classes as classes
		with data.site_data as {"batch_offpeak": {"from": 20, "to": 6, "priority": "low"}}
}

test_batch_by_day_without_room if {
	every capacity in ["scarce", "none"] {
		decide("low", 12, capacity) == {"allow": false, "reason": "batch_waits", "status": 429, "audit": "full"}
	}
}

test_batch_by_day_with_room if decide("low", 12, "ok").allow

test_batch_at_night if {
	every hour in [20, 23, 0, 5] {
		decide("low", hour, "scarce").allow
	}
}

test_batch_at_the_ends_of_the_day if {
	every hour in [6, 19] {
		not decide("low", hour, "scarce").allow
	}
}

test_other_work if decide("standard", 12, "none").allow
