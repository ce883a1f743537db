# Two commands: `make run` starts a demo fleet, `make test` runs everything CI runs.
GO      ?= go
CACHE   ?= $(or $(KVASIR_CACHE),$(HOME)/.cache/kvasir)
export KVASIR_CACHE := $(CACHE)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)
FUZZTIME ?= 2s

.PHONY: build build-hf run deps deps-hf deps-engine test test-engine test-long bench bench-policy bench-wasm bench-policy lint

build: ## bin/kvasir
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kvasir ./cmd/kvasir

build-hf: deps-hf ## bin/kvasir with Hugging Face's tokenizers
	@mkdir -p bin
	CGO_ENABLED=1 CGO_LDFLAGS="-L$(CACHE)/libtokenizers" $(GO) build -trimpath -tags hf -ldflags '$(LDFLAGS)' -o bin/kvasir ./cmd/kvasir

run: build ## four simulated engines, two tenants, the router; prints what to try
	./bin/kvasir dev

deps: ## what the tests compare with: tokenizer files, Hugging Face, Jinja2, pyzmq, OPA
	@bash .ci/deps.sh

deps-hf: ## libtokenizers for the build tag hf (needs cargo and a C compiler)
	@bash host/tokenizer/scripts/deps-hf.sh

deps-engine: ## a real vLLM and a real llama.cpp, kept in the cache folder
	@bash conformance/engine/scripts/deps-engine.sh

test: deps deps-hf ## all tests, with the race detector, and a bounded fuzz of every parser
	$(GO) vet ./...
	$(GO) test -race -timeout 10m ./host/... ./cmd/...
	$(GO) test -run 'allocs|Allocs' ./host/...
	$(GO) test ./host/replay/virtual
	$(GO) test -run RewriteFuel ./host/wasm
	CGO_LDFLAGS="-L$(CACHE)/libtokenizers" $(GO) test -tags hf ./host/tokenizer/hf
	cd sdk/go && $(GO) vet ./... && $(GO) test ./...
	cd sdk/rust && cargo test -q --offline
	$(GO) test ./abi/... ./plugins/... ./policies/... ./examples/... ./conformance ./conformance/golden ./conformance/guests ./host/plugincheck ./conformance/sdk
	$(GO) test -count=1 -timeout 9m ./conformance/harness ./conformance/fleet
	@FUZZTIME=$(FUZZTIME) bash .ci/fuzz.sh

test-engine: deps-engine ## the router before real engines
	$(GO) test -tags engine -count=1 -timeout 8m -v ./conformance/engine/...

test-long: deps deps-engine ## hours' worth of churn and load, in minutes
	$(GO) test -tags long -count=1 -timeout 60m -v ./...

bench: ## prints the machine, ratios and peers
	@bash .ci/bench.sh

bench-policy: ## decisions of the shipped policy with 1,000 tenants and their reload, against their bars; constraints over 512 endpoints, limits
	$(GO) test -run '^$$' -bench 'Snapshot|Reload' -benchtime 2s ./host/policy
	$(GO) test -run '^$$' -bench 'Constraints|Quota' -benchtime 1s ./host/scheduler ./host/quota

bench-wasm: ## a plugin beside native Go, at 8 to 4,096 candidates
	$(GO) test -run '^$$' -bench . -benchtime 1s ./plugins ./host/wasm

lint:
	@bash .ci/lint.sh
