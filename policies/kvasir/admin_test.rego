package kvasir.admin_test

ask(scopes, verb, object) := {
	"version": "1",
	"principal": {"id": "ada", "tenant": "ops", "scopes": scopes, "auth": {"method": "jwt", "issuer": "https://idp"}},
	"verb": verb,
	"object": object,
}

may(asked) if data.kvasir.admin.allow with input as asked with data.site as {}

test_verb if may(ask(["policy:read"], "policy:read", {}))

test_area if may(ask(["policy:*"], "policy:activate", {}))

test_everything if may(ask(["*"], "plugin:push", {}))

test_another_verb if not may(ask(["policy:read"], "policy:activate", {}))

test_another_area if not may(ask(["policy:*"], "plugin:push", {}))

test_no_scope if not may(ask([], "policy:read", {}))

test_word_that_is_no_verb if {
	every verb in ["", "policy", "policy:", ":read", "policy:read:all", "*", "policy:*", "POLICY:READ"] {
		not may(ask(["*", verb, "policy:*"], verb, {}))
	}
}

test_nobody if {
	not may(json.patch(ask(["*"], "policy:read", {}), [{"op": "replace", "path": "/principal/id", "value": ""}]))
}

test_anonymous if {
	not may(json.patch(ask(["*"], "policy:read", {}), [{"op": "replace", "path": "/principal/auth/method", "value": "anonymous"}]))
}

test_another_version if not may(object.union(ask(["*"], "policy:read", {}), {"version": "2"}))

test_empty_input if not may({})

test_explain_own if may(ask(["explain:read"], "explain:read", {"tenant": "ops"}))

test_explain_of_another if not may(ask(["explain:read"], "explain:read", {"tenant": "acme"}))

test_explain_of_nobody_known if not may(ask(["explain:read"], "explain:read", {}))

test_explain_any if {
	every scopes in [["explain:read", "explain:any"], ["explain:*"], ["*"]] {
		may(ask(scopes, "explain:read", {"tenant": "acme"}))
	}
}

test_refusals_are_told if {
	refusals := data.kvasir.admin.refusals with input as ask(["policy:read"], "key:issue", {}) with data.site as {"admin_denials": {"outside_role"}}
	refusals == {"scope_missing", "outside_role"}
}

test_site_denies if {
	not allowed_with({"author_activates"})
	allowed_with(set())
}

test_site_denials_of_another_shape if {
	every denials in [true, ["a_reason"], {}, null] {
		not allowed_with(denials)
	}
}

allowed_with(denials) if {
	data.kvasir.admin.allow with input as ask(["policy:*"], "policy:activate", {}) with data.site as {"admin_denials": denials}
}
