package site.trust_group_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

decide(id, record) := decided if {
	decided := data.kvasir.decision with input as ask(id, {})
		with data.tenants as {id: object.union(base, record)}
		with data.classes as classes
		with data.site_data as {}
		with data.trust_groups as {"labs": {"members": {"lab-east": true, "lab-west": true}}}
}

test_both_sides_agree if {
	every id in ["lab-east", "lab-west"] {
		decide(id, {"cache": "group", "trust_group": "labs"}).cache == {"scope": "group", "group": "labs"}
	}
}

test_a_stranger_is_told if decide("acme", {"cache": "group", "trust_group": "labs"}).reason == "trust_group_one_sided"

test_a_group_without_a_name if decide("lab-east", {"cache": "group"}).reason == "trust_group_one_sided"

test_a_member_that_does_not_ask if decide("lab-east", {"trust_group": "labs"}).cache == {"scope": "tenant"}
