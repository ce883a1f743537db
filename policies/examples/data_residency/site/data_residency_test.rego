package site.data_residency_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

residency := {
	"jurisdictions": {"eu": {"eu-west": true, "eu-central": true, "eu-east": false}},
	"tenants": {"clinic": "eu", "lost": "atlantis"},
}

decide(id, regions) := decided if {
	decided := data.kvasir.decision with input as ask(id, {})
		with data.tenants as {id: object.union(base, {"regions": regions})}
		with data.classes as classes
		with data.site_data as {"residency": residency}
}

test_within if {
	decided := decide("clinic", ["eu-west"])
	decided.allow
	{"label": "region", "op": "in", "values": ["eu-west"]} in decided.constraints
}

test_outside if {
	every regions in [["us"], ["eu-west", "us"], ["eu-east"], "any"] {
		decide("clinic", regions).reason == "residency_outside"
	}
}

test_jurisdiction_that_does_not_exist if decide("lost", ["eu-west"]).reason == "residency_outside"

test_tenant_without_a_jurisdiction if decide("acme", "any").allow
