package site.dedicated_pool_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

decide(id, pools) := decided if {
	decided := data.kvasir.decision with input as ask(id, {})
		with data.tenants as {id: object.union(base, {"pools": pools})}
		with data.classes as classes
		with data.site_data as {"dedicated_pools": {"bank": "bank", "bank-2": "bank", "lab": "lab"}}
}

closed(decided) := {pool |
	some constraint in decided.constraints
	constraint.op == "not_in"
	some pool in constraint.values
}

test_owner_stays_on_its_pools if {
	decided := decide("bank", ["bank", "bank-2"])
	decided.allow
	closed(decided) == {"lab"}
}

test_owner_that_strays_is_refused if decide("bank", ["bank", "main"]).reason == "dedicated_owner_strays"

test_others_are_kept_out if {
	decided := decide("acme", ["main", "bank"])
	decided.allow
	closed(decided) == {"bank", "bank-2", "lab"}
}
