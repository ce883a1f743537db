package kvasir.decision_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes
import data.kvasir.fixture_test.decide
import data.kvasir.fixture_test.decide_record
import data.kvasir.fixture_test.decide_site

test_whole_decision if {
	decide({}, {}) == {
		"allow": true,
		"model": "llama",
		"constraints": {
			{"label": "pool", "op": "in", "values": ["shared-a", "shared-b"]},
			{"label": "region", "op": "in", "values": ["eu"]},
		},
		"prefer": [{"label": "gpu", "values": ["h100"], "weight": 0.5}],
		"cache": {"scope": "tenant"},
		"affinity": {"weight": 2, "max_share": 0.25, "sticky": true},
		"priority": "high",
		"rate_class": "gold",
		"limits": base.limits,
		"profile": "batch",
		"audit": "sample",
	}
}

test_what_is_left_open if {
	decided := decide_record(object.remove(base, ["rate_class", "profile", "audit"]))
	decided.rate_class == "default"
	decided.profile == ""
	decided.audit == "full"
}

# If the document cannot be built, the decision is a refusal and not undefined.
test_undefined_is_denied if {
	decided := data.kvasir.decision with input as object.remove(ask("t1", {}), ["request"])
		with data.tenants as {"t1": base}
		with data.classes as classes
		with data.kvasir.admission.denials as set()
	decided == {"allow": false, "reason": "policy_undefined", "status": 503}
}

test_reason_that_nobody_knows if {
	decided := data.kvasir.decision with input as ask("t1", {}) with data.kvasir.admission.denials as {"z_reason", "y_reason"} with data.site as {}
	decided == {"allow": false, "reason": "y_reason", "status": 403, "audit": "full"}
}

test_reason_to_try_again_later if {
	decided := decide_site({"denials": {"come_later", "never"}, "retry": {"come_later"}}, {}, {})
	decided == {"allow": false, "reason": "come_later", "status": 429, "audit": "full"}
}

test_only_reasons_of_the_site_are_tried_again if {
	decided := decide_site({"retry": {"model_not_allowed"}}, {}, {"model": "gpt"})
	decided.status == 403
}
