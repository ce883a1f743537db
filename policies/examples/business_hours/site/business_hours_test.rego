package site.business_hours_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

decide(id, hour) := decided if {
	asked := object.union(ask(id, {}), {"router": {"hour_utc": hour}})
	decided := data.kvasir.decision with input as asked
		with data.tenants as {id: base}
		with data.classes as classes
		with data.site_data as {"business_hours": {
			"day": {"from": 7, "to": 18}, "night": {"from": 22, "to": 6},
			"never": {"from": 9, "to": 9}, "half": {"from": 7},
		}}
}

test_day if {
	every hour in numbers.range(0, 23) {
		expect(decide("day", hour), hour in numbers.range(7, 17))
	}
}

test_night if {
	every hour in numbers.range(0, 23) {
		expect(decide("night", hour), hour in {22, 23, 0, 1, 2, 3, 4, 5})
	}
}

test_hours_that_are_empty_or_half_said_are_closed if {
	every id in ["never", "half"] {
		every hour in numbers.range(0, 23) {
			expect(decide(id, hour), false)
		}
	}
}

test_tenant_without_hours if expect(decide("acme", 3), true)

expect(decided, true) if decided.allow

expect(decided, false) if decided == {"allow": false, "reason": "outside_business_hours", "status": 429, "audit": "full"}
