# `make help` lists the targets. `make run` starts a demo fleet, `make check` is
# what to run before a commit, `make test` runs everything that CI tests.
GO      ?= go
CACHE   ?= $(or $(KVASIR_CACHE),$(HOME)/.cache/kvasir)
export KVASIR_CACHE := $(CACHE)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)
FUZZTIME ?= 2s

# Packages whose tests start no router process. go test begins with the first: policies,
# which takes long in one goroutine, runs beside all others.
CORE := ./policies/... ./host/... ./cmd/... ./abi/... ./plugins/... \
	./conformance ./conformance/golden ./conformance/guests

# Packages whose tests compare with other implementations.
ORACLE := ./cmd/kvasir ./conformance/guests ./conformance/sdk ./host/kvevents ./host/plugsign ./host/simengine \
	./host/tokenizer/... ./host/wasm ./plugins/... ./policies/...

# Tests that mostly wait run side by side, after those that measure latency or load.
FLEET := $(GO) test -count=1 -timeout 9m -parallel 6 ./conformance/harness ./conformance/fleet

.DEFAULT_GOAL := build
.PHONY: help build build-hf run generate check lint lint-quick deps deps-hf deps-engine \
	test test-core test-race test-fuzz test-oracle test-load test-engine test-long bench bench-check bench-readme replay-readme \
	bench-policy bench-wasm

help: ## this list
	@awk -F ':.*## ' '/^##@ /{sub(/^##@ /, ""); printf "\n%s\n", $$0} /^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

build: ## bin/kvasir
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kvasir ./cmd/kvasir

build-hf: deps-hf ## bin/kvasir with Hugging Face's tokenizers
	@mkdir -p bin
	CGO_ENABLED=1 CGO_LDFLAGS="-L$(CACHE)/libtokenizers" $(GO) build -trimpath -tags hf -ldflags '$(LDFLAGS)' -o bin/kvasir ./cmd/kvasir

run: build ## four simulated engines, two tenants, the router; prints what to try
	./bin/kvasir dev

generate: ## everything that is generated: ABI constants, METRICS.md, schemas, tables, SCOPES.md, the API description
	$(GO) generate ./...

##@ Check

check: lint-quick test-core ## what to run before a commit: format, vet, staticcheck, generated files, tests that need Go alone

lint: ## what check does of it, for all build tags and systems, and known vulnerabilities
	@bash .ci/lint.sh

lint-quick:
	@bash .ci/lint.sh quick

##@ Test (each says what it installs)

test-core: ## tests that need Go alone; installs nothing; under two minutes with a warm build cache
	@echo "installs: nothing"
	$(GO) test -short $(CORE)

test-race: ## those of host and cmd with the race detector; needs a C compiler; installs nothing
	@echo "installs: nothing (the race detector needs a C compiler)"
	$(GO) test -race -short -timeout 10m ./host/... ./cmd/...

test-fuzz: ## every fuzz test for FUZZTIME (2s); installs nothing
	@echo "installs: nothing"
	@FUZZTIME=$(FUZZTIME) bash .ci/fuzz.sh

test-oracle: deps deps-hf ## comparisons with Hugging Face, Jinja2, pyzmq, OPA, OpenSSL, other compilers
	$(GO) test $(ORACLE)
	CGO_LDFLAGS="-L$(CACHE)/libtokenizers" $(GO) test -tags hf ./host/tokenizer/hf
	cd sdk/rust && cargo test -q --offline

test-load: deps ## the running binary under load, faults, reloads and hostile plugins
	$(FLEET)

test: deps deps-hf ## all of these, with the race detector, and a bounded fuzz of every parser
	$(GO) vet ./...
	$(GO) test -race -timeout 10m ./host/... ./cmd/...
	@bash .ci/norace.sh
	CGO_LDFLAGS="-L$(CACHE)/libtokenizers" $(GO) test -tags hf ./host/tokenizer/hf
	cd sdk/go && $(GO) vet ./... && $(GO) test ./...
	cd sdk/rust && cargo test -q --offline
	$(GO) test ./abi/... ./plugins/... ./policies/... ./conformance ./conformance/golden ./conformance/guests ./conformance/sdk
	$(FLEET)
	@FUZZTIME=$(FUZZTIME) bash .ci/fuzz.sh

test-engine: deps-engine ## the router before a real vLLM and a real llama.cpp
	$(GO) test -tags engine -count=1 -timeout 8m -v ./conformance/engine/...

test-long: deps deps-engine ## hours' worth of churn and load, in minutes
	$(GO) test -tags long -count=1 -timeout 60m -v ./...

##@ Install what tests compare with (kept in $KVASIR_CACHE, ~/.cache/kvasir)

deps: ## tokenizer files, Hugging Face, Jinja2, pyzmq, the official clients, OPA; about 500 MB
	@bash .ci/deps.sh

deps-hf: ## libtokenizers for the build tag hf; needs cargo and a C compiler
	@echo "installs into $(CACHE): libtokenizers, about 50 MB"
	@bash host/tokenizer/scripts/deps-hf.sh

deps-engine: ## a real vLLM and a real llama.cpp; about 6.6 GB
	@echo "installs into $(CACHE): vLLM for the CPU and llama.cpp with tiny models, about 6.6 GB"
	@bash conformance/engine/scripts/deps-engine.sh

##@ Measure

bench: ## prints the machine, ratios and peers
	@bash .ci/bench.sh

bench-check: ## fails if a ratio of the data path to nginx is 10 % worse than README says; installs nginx
	@bash conformance/bench/run.sh -bench.check README.md

bench-readme: ## measures the data path beside nginx and writes the table of README; installs nginx
	@bash conformance/bench/run.sh -bench.write README.md

replay-readme: ## tunes the policies of others, compares placement in virtual time, writes the table of README
	@bash conformance/bench/replay.sh README.md

bench-policy: ## decisions of the shipped policy with 1,000 tenants, their reload, constraints, limits
	$(GO) test -run '^$$' -bench 'Snapshot|Reload' -benchtime 2s ./host/policy
	$(GO) test -run '^$$' -bench 'Constraints|Quota' -benchtime 1s ./host/scheduler ./host/quota

bench-wasm: ## a plugin beside native Go, at 8 to 4,096 candidates
	$(GO) test -run '^$$' -bench . -benchtime 1s ./plugins ./host/wasm
