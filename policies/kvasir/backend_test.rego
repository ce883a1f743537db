package kvasir.backend_test

backends := {
	"main": {
		"networks": ["10.0.0.0/8", "fd00::/8"],
		"hosts": {"gpu-1.example.internal": true, "gpu-2.example.internal": false},
		"plain_http": true,
		"labels": {"region": {"eu": true, "us": false}},
	},
	"sealed": {"hosts": {"gpu-1.example.internal": true}},
}

ask(url, pool, labels) := {"version": "1", "backend": {"url": url, "pool": pool, "dialect": "vllm", "labels": labels}}

may(asked) if data.kvasir.backend.allow with input as asked with data.backends as backends with data.site as {}

test_address if may(ask("http://10.1.2.3:8000", "main", {"region": "eu"}))

test_address_v6 if may(ask("http://[fd00::7]:8000", "main", {"region": "eu"}))

test_host if may(ask("https://gpu-1.example.internal", "main", {"region": "eu"}))

test_host_set_to_false if not may(ask("https://gpu-2.example.internal", "main", {"region": "eu"}))

test_other_addresses if {
	every url in [
		"http://11.1.2.3:8000", "http://10.1.2.3.example.com", "http://10.1.2.3@evil.example", "http://gpu-1.example.internal.evil.example",
		"http://[::1]:8000", "ftp://10.1.2.3", "10.1.2.3:8000", "", "http://",
	] {
		not may(ask(url, "main", {"region": "eu"}))
	}
}

test_unknown_pool if not may(ask("http://10.1.2.3:8000", "other", {"region": "eu"}))

test_plain_http if {
	not may(ask("http://gpu-1.example.internal", "sealed", {}))
	may(ask("https://gpu-1.example.internal", "sealed", {}))
}

test_label_that_is_not_listed if not may(ask("http://10.1.2.3:8000", "main", {"region": "eu", "isolation": "verified"}))

test_value_that_is_not_listed if {
	not may(ask("http://10.1.2.3:8000", "main", {"region": "asia"}))
	not may(ask("http://10.1.2.3:8000", "main", {"region": "us"}))
}

test_label_that_is_missing if not may(ask("http://10.1.2.3:8000", "main", {}))

test_another_version if not may(object.union(ask("http://10.1.2.3:8000", "main", {"region": "eu"}), {"version": "2"}))

test_empty_input if not may({})

test_site_denies if {
	not allowed_with({"too_old"})
	allowed_with(set())
}

test_site_denials_of_another_shape if {
	every denials in [true, ["a_reason"], {}, null] {
		not allowed_with(denials)
	}
}

allowed_with(denials) if {
	data.kvasir.backend.allow with input as ask("http://10.1.2.3:8000", "main", {"region": "eu"})
		with data.backends as backends
		with data.site as {"backend_denials": denials}
}
