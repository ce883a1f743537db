package site.backend_admission_test

may(url, dialect, labels) if {
	data.kvasir.backend.allow with input as {
		"version": "1",
		"backend": {"url": url, "pool": "sealed", "dialect": dialect, "labels": labels},
	}
		with data.backends as {"sealed": {
			"hosts": {"gpu-1.sealed.internal": true},
			"labels": {"compliance": {"hipaa": true}},
		}}
}

test_member_of_the_pool if may("https://gpu-1.sealed.internal:8000", "vllm", {"compliance": "hipaa"})

test_stranger if not may("https://gpu-9.sealed.internal:8000", "vllm", {"compliance": "hipaa"})

test_plain_http if not may("http://gpu-1.sealed.internal:8000", "vllm", {"compliance": "hipaa"})

test_engine_without_salt if not may("https://gpu-1.sealed.internal:8000", "llamacpp", {"compliance": "hipaa"})

test_label_that_is_missing if not may("https://gpu-1.sealed.internal:8000", "vllm", {})
