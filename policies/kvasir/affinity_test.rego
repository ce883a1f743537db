package kvasir.affinity_test

import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.decide
import data.kvasir.fixture_test.decide_record

test_class_that_was_asked_for if {
	decided := decide({}, {})
	decided.priority == "high"
	decided.affinity == {"weight": 2, "max_share": 0.25, "sticky": true}
}

test_defaults_of_a_class if {
	decided := decide({}, {"priority": ""})
	decided.priority == "standard"
	decided.affinity == {"weight": 1, "max_share": 0.5, "sticky": false}
}

test_class_that_was_not_granted if decide({}, {"priority": "low"}).priority == "standard"

test_class_that_does_not_exist if decide({"priorities": {"urgent": true}}, {"priority": "urgent"}).priority == "standard"

test_lowest_without_standard if {
	decide_record(object.union(object.remove(base, ["priorities"]), {"priorities": {"idle": true, "low": true}})).priority == "idle"
}

test_prefer if decide({}, {}).prefer == [{"label": "gpu", "values": ["h100"], "weight": 0.5}]

test_prefer_nothing if decide_record(object.remove(base, ["prefer"])).prefer == []
