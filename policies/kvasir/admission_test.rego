package kvasir.admission_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.decide
import data.kvasir.fixture_test.decide_asked
import data.kvasir.fixture_test.decide_record
import data.kvasir.fixture_test.decide_site

test_allow if decide({}, {}).allow

test_input_of_another_version if {
	asked := object.union(ask("t1", {}), {"version": "2"})
	decided := decide_asked(asked, {"t1": base})
	decided == {"allow": false, "reason": "policy_input", "status": 503, "audit": "full"}
}

test_empty_input if {
	decided := decide_asked({}, {"t1": base})
	decided == {"allow": false, "reason": "policy_input", "status": 503, "audit": "full"}
}

test_unknown_tenant if {
	decided := decide_asked(ask("ghost", {}), {"t1": base})
	decided == {"allow": false, "reason": "tenant_unknown", "status": 403, "audit": "full"}
}

test_no_data if {
	decided := decide_asked(ask("t1", {}), {})
	decided.reason == "tenant_unknown"
}

test_record_that_is_no_object if {
	every record in [null, true, "t1", 7, []] {
		decide_record(record).reason == "tenant_unknown"
	}
}

test_disabled if decide({"enabled": false}, {}).reason == "tenant_disabled"

test_enabled_is_true_or_nothing if {
	every value in ["true", 1, null, {}] {
		decide({"enabled": value}, {}).reason == "tenant_disabled"
	}
}

test_auth_method if {
	asked := json.patch(ask("t1", {}), [{"op": "replace", "path": "/tenant/auth/method", "value": "anonymous"}])
	decided := decide_asked(asked, {"t1": base})
	decided.reason == "auth_method_not_allowed"
}

test_auth_method_set_to_false if {
	asked := json.patch(ask("t1", {}), [{"op": "replace", "path": "/tenant/auth/method", "value": "mtls"}])
	decided := decide_asked(asked, {"t1": base})
	decided.reason == "auth_method_not_allowed"
}

test_model if decide({}, {"model": "gpt"}).reason == "model_not_allowed"

test_model_set_to_false if decide({}, {"model": "qwen"}).reason == "model_not_allowed"

test_model_named_like_the_wildcard if decide({}, {"model": "*"}).reason == "model_not_allowed"

test_every_model if decide({"models": {"*": true}}, {"model": "gpt"}).allow

test_every_model_is_not_none if decide({"models": {"*": true}}, {"model": ""}).reason == "model_not_allowed"

test_adapter if decide({}, {"adapter": "legal"}).allow

test_adapter_of_another if decide({}, {"adapter": "medical"}).reason == "adapter_not_allowed"

test_pools_that_are_none if {
	every pools in [[], "shared-a", [""], [7], null, {"shared-a": true}] {
		decide({"pools": pools}, {}) == {"allow": false, "reason": "tenant_misconfigured", "status": 503, "audit": "full"}
	}
}

test_regions_that_are_none if {
	every regions in [[], "eu", [""], [7], null, {"eu": true}, true] {
		decide({"regions": regions}, {}).reason == "tenant_misconfigured"
	}
}

test_limits_are_all_there if {
	every name in object.keys(base.limits) {
		record := object.union(object.remove(base, ["limits"]), {"limits": object.remove(base.limits, [name])})
		decide_record(record).reason == "tenant_misconfigured"
	}
}

test_priorities_of_no_known_class if decide({"priorities": {"high": false, "standard": false, "urgent": true}}, {}).reason == "tenant_misconfigured"

# A record without a required field is refused; removing any other field allows
# nothing more.
test_a_missing_field_never_widens if {
	whole := decide_record(base)
	every field in object.keys(base) {
		narrower(decide_record(object.remove(base, [field])), whole)
	}
}

test_demanded_fields if {
	every field in ["enabled", "auth_methods", "models", "pools", "regions", "priorities", "limits"] {
		not decide_record(object.remove(base, [field])).allow
	}
}

narrower(decided, _) if not decided.allow

narrower(decided, whole) if {
	decided.allow
	decided.constraints & whole.constraints == whole.constraints
	decided.limits == whole.limits
	decided.cache.scope in {whole.cache.scope, "none"}
}

test_site_denies if {
	decided := decide_site({"denials": {"b_reason", "a_reason"}}, {}, {})
	decided == {"allow": false, "reason": "a_reason", "status": 403, "audit": "full"}
}

test_shipped_reason_is_told_first if {
	decided := decide_site({"denials": {"a_reason"}}, {}, {"model": "gpt"})
	decided.reason == "model_not_allowed"
}

test_site_denials_of_another_shape if {
	every denials in [true, ["a_reason"], "a_reason", {"a_reason": true}, {7}, {"A reason"}, {""}, null] {
		decided := decide_site({"denials": denials}, {}, {})
		decided.reason == "site_misconfigured"
	}
}

test_site_constraints_of_another_shape if {
	every constraints in [true, [], "gpu", {}, null] {
		decided := decide_site({"constraints": constraints}, {}, {})
		decided.reason == "site_misconfigured"
	}
}

test_site_rewrites_within_the_tenants_models if {
	decided := decide_site({"model": "llama-next"}, {"models": {"llama-next": true}}, {})
	decided.model == "llama-next"
}

test_site_cannot_rewrite_to_another_model if {
	every model in ["gpt", "qwen", ""] {
		decided := decide_site({"model": model}, {}, {})
		decided.reason == "model_not_allowed"
	}
}

test_site_rewrite_opens_no_model if {
	decided := decide_site({"model": "llama"}, {}, {"model": "gpt"})
	decided.reason == "model_not_allowed"
}
