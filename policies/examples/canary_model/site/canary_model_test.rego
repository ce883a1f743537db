package site.canary_model_test

import data.kvasir.fixture_test.ask
import data.kvasir.fixture_test.base
import data.kvasir.fixture_test.classes

model(user, models, share) := decided.model if {
	asked := object.union(ask("t1", {}), {"tenant": {"user": user}})
	decided := data.kvasir.decision with input as asked
		with data.tenants as {"t1": object.union(base, {"models": models})}
		with data.classes as classes
		with data.site_data as {"canary_model": {"llama": {"to": "llama-next", "share": share}}}
}

users := [format_int(n, 10) | some n in numbers.range(1, 400)]

# The number of users that a share moves to the next model.
moved(share) := count([user |
	some user in users
	asked := object.union(ask("t1", {}), {"tenant": {"user": user}})
	next := data.site.model with input as asked
		with data.tenants as {"t1": object.union(base, {"models": {"llama-next": true}})}
		with data.site_data as {"canary_model": {"llama": {"to": "llama-next", "share": share}}}
	next == "llama-next"
])

test_none_and_all if {
	moved(0) == 0
	moved(1) == 400
}

test_a_tenth_within_what_chance_allows if {
	tenth := moved(0.1)
	tenth > 20
	tenth < 60
}

test_who_is_moved_at_a_tenth_is_moved_at_a_half if {
	every user in array.slice(users, 0, 60) {
		stays(model(user, {"llama-next": true}, 0.1), model(user, {"llama-next": true}, 0.5))
	}
}

stays("llama", _)

stays("llama-next", "llama-next")

test_tenant_without_the_next_model_keeps_its_own if model("1", {}, 1) == "llama"
