# Every target gets what it needs by itself; the first cluster builds Kubernetes from
# Go modules, which takes about 11 minutes on two cores. `cargo xtask --help` knows more.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Where installers put cargo and go, for shells that do not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin

# An absolute path, since tests run in the directory of their crate.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# What the demo makes.
DEMO := $(CURDIR)/target/demo
# Where `make examples` installs.
CACHE := $(or $(PADDLE_OPERATOR_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/paddle-operator)
# Names of their own, so that a developer's cluster stays out of it. Give others to run
# two at once.
TEST_CLUSTER ?= test
CHAOS_CLUSTER ?= chaos
NODES_CLUSTER ?= nodes
BENCH_CLUSTER ?= bench
# How `make bench-nodes` compiles the operator: release or debug.
PROFILE ?= release
# Each takes 1,000 pods.
NODES ?= 8

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install the tools that are missing, or say which
	@xtask/setup.sh cc cargo go

.PHONY: demo
demo: examples ## Train a model on this machine, with nothing but this
	@xtask/setup.sh cc cargo ip
	cargo build
	@rm -rf "$(DEMO)/model"
	@mkdir -p "$(DEMO)"
	"$(CACHE)/paddle-3.3.1/bin/python" examples/resnet/stripes.py "$(DEMO)/images"
	sed -e 's#IMAGES_DIR#$(DEMO)/images#' -e 's#MODEL_DIR#$(DEMO)/model#' examples/demo.yaml | \
	"$(TARGET)/debug/paddle-operator" run -f - --dir "$(DEMO)/state"
	@echo "The trained model: $(DEMO)/model/resnet.pdparams"
	@echo "The same, with kubectl: $(TARGET)/debug/paddle-operator local"

.PHONY: examples
examples: ## Install the programs that stand for the images of the guides
	@examples/install.sh

.PHONY: test-examples
test-examples: examples ## Train the examples without an operator
	python3 examples/test.py

.PHONY: test
test: examples ## Formatting, lints and every test that needs no cluster
	@xtask/setup.sh cc cargo helm ip kubectl
	cargo fmt --all --check
# With all features, because the tests that need a cluster are behind one.
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo test --workspace

# Runs a command with a fresh cluster and ends the cluster whatever happens.
# $(1): its name, $(2): options of `up`, $(3): the command
define with_cluster
	trap 'cargo xtask cluster down --name $(1)' EXIT; \
	cargo xtask cluster up --fresh --name $(1) $(2); \
	export PATH="$(CACHE)/bin:$$PATH"; \
	export PADDLE_OPERATOR_TEST_KUBECONFIG="$$(cargo xtask cluster kubeconfig --name $(1))"; \
	export PADDLE_OPERATOR_TEST_AUDIT_LOG="$$(cargo xtask cluster audit-log --name $(1))"; \
	$(3)
endef

.PHONY: test-cluster
test-cluster: setup ## The tests that need a real kube-apiserver; the last of them as root
	$(call with_cluster,$(TEST_CLUSTER),,cargo test --package testkit --features cluster)
	$(MAKE) test-chaos
	$(MAKE) test-volcano
	$(MAKE) test-nodes

.PHONY: test-comparison
test-comparison: setup ## Ask the embedded API and a real kube-apiserver the same
	$(call with_cluster,$(TEST_CLUSTER),,\
	cargo test --package testkit --features comparison --test comparison)

.PHONY: test-chaos
test-chaos: setup ## Kill the manager, lie to it and feed it hostile objects, on fake nodes
	cargo build --package cli
	$(call with_cluster,$(CHAOS_CLUSTER),--kwok 4,\
	PADDLE_OPERATOR_TEST_KWOK_KUBECONFIG="$$PADDLE_OPERATOR_TEST_KUBECONFIG" \
	PADDLE_OPERATOR_BIN="$(TARGET)/debug/paddle-operator" \
	cargo test --package testkit --features chaos --test chaos --test hostile --test install)

.PHONY: test-volcano
test-volcano: setup ## Gang scheduling by the real Volcano, on a fake node
	cargo build --package cli
	$(call with_cluster,$(CHAOS_CLUSTER),--kwok 1 --volcano,\
	PADDLE_OPERATOR_TEST_KWOK_KUBECONFIG="$$PADDLE_OPERATOR_TEST_KUBECONFIG" \
	PADDLE_OPERATOR_BIN="$(TARGET)/debug/paddle-operator" \
	cargo test --package testkit --features chaos --test volcano)

# The images first: a node has those that were there when it started.
.PHONY: test-nodes
test-nodes: setup examples ## What the guides show of a cluster, on real nodes, as root
	@xtask/setup.sh helm musl nodes
	cargo xtask image examples
	@xtask/testbed/traces.sh "$(CACHE)/cluster/$(NODES_CLUSTER)" >"$(TARGET)/traces-$(NODES_CLUSTER)"
	image="$$(cargo xtask image --debug)"; \
	$(call with_cluster,$(NODES_CLUSTER),--nodes 3 --volcano,\
	cargo xtask cluster load --name $(NODES_CLUSTER) "$$image"; \
	PADDLE_OPERATOR_TEST_CLUSTER="$(NODES_CLUSTER)" \
	cargo test --package testkit --features nodes --test nodes)
# The machine is as it was before.
	@traces="$$(xtask/testbed/traces.sh "$(CACHE)/cluster/$(NODES_CLUSTER)")"; \
	! grep --invert-match --line-regexp --fixed-strings --file="$(TARGET)/traces-$(NODES_CLUSTER)" <<<"$$traces" || \
	{ echo "error: this is left of the cluster" >&2; exit 1; }

.PHONY: bench-control
bench-control: setup ## Measure the manager on fake nodes, beside bare pods
	cargo build --release --package cli --package bench
	$(call with_cluster,$(BENCH_CLUSTER),--kwok $(NODES),\
	cargo xtask cluster kubectl --name $(BENCH_CLUSTER) apply -f deploy/v1/crd.yaml; \
	PADDLE_OPERATOR_BIN="$(TARGET)/release/paddle-operator" "$(TARGET)/release/bench-control")

.PHONY: bench-data
bench-data: examples ## Measure reading through the cache, beside plain disk and s3fs
	@xtask/setup.sh cc cargo
	@examples/install.sh s3fs
	cargo build --release --package bench --bin bench-data
	"$(TARGET)/release/bench-data" --installed "$(CACHE)"

# The image first, as above. `make bench-nodes PROFILE=debug` measures what tests run.
.PHONY: bench-nodes
bench-nodes: setup examples ## Measure the installed operator on real nodes, as root
	@xtask/setup.sh musl nodes
	cargo xtask image examples
	image="$$(cargo xtask image $(if $(filter debug,$(PROFILE)),--debug))"; \
	cargo build --package bench --bin bench-nodes; \
	$(call with_cluster,$(BENCH_CLUSTER),--nodes 3,\
	cargo xtask cluster load --name $(BENCH_CLUSTER) "$$image"; \
	export KUBECONFIG="$$PADDLE_OPERATOR_TEST_KUBECONFIG"; \
	kubectl apply -f deploy/v1/crd.yaml; \
	kubectl apply -f deploy/v1/operator.yaml -f deploy/extensions/controllers.yaml; \
	kubectl -n paddle-system rollout status deployment --timeout=120s; \
	"$(TARGET)/debug/bench-nodes" --installed "$(CACHE)" --profile "$(PROFILE)")

.PHONY: generate
generate: ## Write what is generated from the types
	@xtask/setup.sh cc cargo
	cargo xtask generate

.PHONY: cluster
cluster: setup ## Start a Kubernetes with fake nodes to play with
	cargo xtask cluster up --kwok $(NODES)

.PHONY: cluster-nodes
cluster-nodes: setup ## Start one with real nodes, as root
	@xtask/setup.sh nodes
	cargo xtask cluster up --nodes 3

.PHONY: cluster-down
cluster-down: ## End it
	cargo xtask cluster down
