package site

# METADATA
# title: A sealed pool accepts only engines that honour a cache salt
# labels: {id: backend_dialect}
# schemas:
# - input: schema.backend
backend_denials contains "dialect_without_salt" if {
	input.backend.pool == "sealed"
	not salted_dialect
}

# METADATA
# schemas:
# - input: schema.backend
salted_dialect if input.backend.dialect in {"vllm", "sglang"}
