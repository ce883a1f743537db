package kvasir.isolation_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.decide
import data.kvasir.fixture_test.decide_asked
import data.kvasir.fixture_test.decide_record
import data.kvasir.fixture_test.decide_site

pool := {"label": "pool", "op": "in", "values": ["shared-a", "shared-b"]}

region := {"label": "region", "op": "in", "values": ["eu"]}

test_constraints if decide({}, {}).constraints == {pool, region}

test_any_region if decide({"regions": "any"}, {}).constraints == {pool}

test_missing_lists_match_nothing if {
	constraints := data.kvasir.isolation.constraints with input as ask("t1", {})
		with data.tenants as {"t1": object.remove(base, ["pools", "regions"])}
		with data.site as {}
	constraints == {{"label": "pool", "op": "in", "values": []}, {"label": "region", "op": "in", "values": []}}
}

# A list that holds the word is a list of regions, one of them called any.
test_any_in_a_list_is_a_name if {
	decide({"regions": ["any"]}, {}).constraints == {pool, {"label": "region", "op": "in", "values": ["any"]}}
}

test_site_constraint_is_added if {
	extra := {"label": "gpu", "op": "not_in", "values": ["a10"]}
	decided := decide_site({"constraints": {extra}}, {}, {})
	decided.constraints == {pool, region, extra}
}

test_cache_tenant if decide({}, {}).cache == {"scope": "tenant"}

test_cache_none if decide({"cache": "none"}, {}).cache == {"scope": "none"}

test_cache_public if decide({"cache": "public"}, {}).cache == {"scope": "public"}

test_cache_that_is_not_said if decide_record(object.remove(base, ["cache"])).cache == {"scope": "none"}

test_cache_word_that_is_not_known if decide({"cache": "all"}, {}).cache == {"scope": "none"}

test_cache_user if {
	asked := json.patch(ask("t1", {}), [{"op": "replace", "path": "/tenant/user", "value": "u1"}])
	decided := decide_asked(asked, {"t1": object.union(base, {"cache": "user"})})
	decided.cache == {"scope": "user"}
}

test_cache_user_without_a_user if decide({"cache": "user"}, {}).cache == {"scope": "none"}

test_group if decide({"cache": "group", "trust_group": "g1"}, {}).cache == {"scope": "group", "group": "g1"}

test_group_that_does_not_list_the_tenant if decide({"cache": "group", "trust_group": "g2"}, {}).cache == {"scope": "tenant"}

test_group_that_does_not_exist if decide({"cache": "group", "trust_group": "g3"}, {}).cache == {"scope": "tenant"}

test_group_without_a_name if decide({"cache": "group"}, {}).cache == {"scope": "tenant"}

# The group lists t1, but t1 does not name the group.
test_group_that_the_tenant_does_not_want if decide({"trust_group": "g1"}, {}).cache == {"scope": "tenant"}

test_member_set_to_false if {
	decided := decide_asked(ask("t3", {}), {"t3": object.union(base, {"cache": "group", "trust_group": "g1"})})
	decided.cache == {"scope": "tenant"}
}
