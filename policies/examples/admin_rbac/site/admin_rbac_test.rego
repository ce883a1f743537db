package site.admin_rbac_test

roles := {"platform": {"plugin": true}, "governance": {"policy": true, "key": false}}

may(groups, verb, object) if {
	data.kvasir.admin.allow with input as {
		"version": "1",
		"principal": {"id": "ada", "tenant": "ops", "groups": groups, "scopes": ["*"], "auth": {"method": "jwt", "issuer": "https://idp"}},
		"verb": verb,
		"object": object,
	}
		with data.site_data as {"admin_rbac": roles}
}

test_role if may(["platform"], "plugin:push", {})

test_another_role if not may(["platform"], "policy:read", {})

test_two_roles if may(["platform", "governance"], "policy:read", {})

test_no_role if not may([], "plugin:push", {})

test_unknown_role if not may(["intern"], "plugin:push", {})

test_area_set_to_false if not may(["governance"], "key:issue", {})

test_another_activates if may(["governance"], "policy:activate", {"author": "bob"})

test_author_does_not_activate if not may(["governance"], "policy:activate", {"author": "ada"})

test_another_activates_plugin if may(["platform"], "plugin:activate", {"author": "bob"})

test_author_does_not_activate_plugin if not may(["platform"], "plugin:activate", {"author": "ada"})

test_plugin_author_must_be_known if not may(["platform"], "plugin:activate", {})

test_author_goes_back if may(["platform"], "plugin:activate", {"undo": true})

test_author_must_be_known if not may(["governance"], "policy:activate", {})
