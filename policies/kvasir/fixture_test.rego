# Data and inputs of the tests in this folder.
package kvasir.fixture_test

base := {
	"enabled": true,
	"auth_methods": {"jwt": true, "api_key": true, "mtls": false},
	"models": {"llama": true, "qwen": false},
	"adapters": {"legal": true},
	"pools": ["shared-a", "shared-b"],
	"regions": ["eu"],
	"priorities": {"high": true, "standard": true, "low": false},
	"cache": "tenant",
	"limits": {
		"max_prompt_tokens": 32000, "max_output_tokens": 4096, "max_concurrency": 8,
		"tokens_per_minute": 0, "requests_per_minute": 600,
	},
	"prefer": [{"label": "gpu", "values": ["h100"], "weight": 0.5}],
	"rate_class": "gold",
	"profile": "batch",
	"audit": "sample",
}

classes := {
	"high": {"priority": 10, "affinity": {"weight": 2, "max_share": 0.25, "sticky": true}},
	"standard": {"priority": 0},
	"low": {"priority": -10},
	"idle": {"priority": -20},
}

request := {
	"operation": "chat.completions", "model": "llama", "adapter": "", "stream": true,
	"priority": "high", "size_class": "m", "labels": {},
}

# The input of tenant id with fields of the request replaced.
ask(id, changes) := {
	"version": "1",
	"tenant": {"id": id, "user": "", "groups": [], "scopes": [], "auth": {"method": "jwt", "issuer": "https://idp"}},
	"request": object.union(request, changes),
	"router": {"region": "eu", "hour_utc": 3, "capacity_state": "ok"},
}

# The decision of the shipped rules: these tests ignore the site's own rules.
decide_asked(asked, tenants) := decided if {
	decided := data.kvasir.decision with input as asked
		with data.tenants as tenants
		with data.classes as classes
		with data.trust_groups as {"g1": {"members": {"t1": true, "t2": true, "t3": false}}, "g2": {"members": {"t9": true}}}
		with data.site as {}
}

# The decision for tenant t1 with fields of its record replaced.
decide(record, changes) := decide_asked(ask("t1", changes), {"t1": object.union(base, record)})

# The decision for tenant t1 with exactly this record.
decide_record(record) := decide_asked(ask("t1", {}), {"t1": record})

# The decision for tenant t1 with these rules of a site.
decide_site(site, record, changes) := decided if {
	decided := data.kvasir.decision with input as ask("t1", changes)
		with data.tenants as {"t1": object.union(base, record)}
		with data.classes as classes
		with data.trust_groups as {}
		with data.site as site
}
