#!/usr/bin/env bash
# Makes sure that the named tools are there:
# xtask/setup.sh [cc] [cargo] [go] [helm] [ip] [kubectl] [musl] [nodes] [python]
# Installs Debian packages when it may, else says what to install. Silent when all is well.
set -euo pipefail
cd "$(dirname "$0")/.."

apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing $*" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-remove "$@"; } >&2
}

# From 1.21 on Go fetches by itself the newer version that a go.mod asks for.
has_go() {
    local version
    version=$(GOTOOLCHAIN=local go version 2>/dev/null | sed -nE 's/.* go([0-9]+\.[0-9]+).*/\1/p')
    [ -n "$version" ] && printf '1.21\n%s\n' "$version" | sort --version-sort --check=quiet
}

# The one of the test clusters, which `make test-cluster` finds there.
cache=${PADDLE_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/paddle-operator}

# Whether there is one, of the machine or built from this module as it is now. A link is of the
# test clusters, which look after it themselves.
has() { # program module
    local built=$cache/bin/$1
    if [ -x "$built" ]; then
        [ -L "$built" ] || cmp --quiet "xtask/testbed/$2/go.mod" "$built.go.mod"
    else
        command -v "$1" >/dev/null
    fi
}

build_kubectl() {
    echo "building kubectl from Go modules (about 3 minutes the first time)" >&2
    mkdir -p "$cache/bin" && (
        cd xtask/testbed/kubernetes &&
            version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) &&
            CGO_ENABLED=0 go build -trimpath -o "$cache/bin/kubectl" \
                -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
                k8s.io/kubernetes/cmd/kubectl &&
            cp go.mod "$cache/bin/kubectl.go.mod"
    )
}

# For the tests of the chart.
build_helm() {
    echo "building helm from Go modules (about 2 minutes the first time)" >&2
    mkdir -p "$cache/bin" && (
        cd xtask/testbed/helm &&
            CGO_ENABLED=0 go build -trimpath -o "$cache/bin/helm" -ldflags "-s -w" \
                helm.sh/helm/v3/cmd/helm &&
            cp go.mod "$cache/bin/helm.go.mod"
    )
}

fail() {
    echo "error: $*" >&2
    exit 1
}

for tool in "$@"; do
    case $tool in
    cc)
        command -v cc >/dev/null || apt build-essential ||
            fail "no C compiler: install one, on Debian the package build-essential"
        ;;
    cargo)
        # A distribution's Rust is too old, and rust-toolchain.toml needs rustup.
        command -v cargo >/dev/null ||
            fail "no cargo: install Rust with rustup, see https://rustup.rs"
        ;;
    go)
        has_go || { apt golang-go && has_go; } ||
            fail "no Go of version 1.21 or newer: install one from https://go.dev/dl"
        ;;
    python)
        examples/python.sh >/dev/null || { apt python3-venv && examples/python.sh >/dev/null; } ||
            fail "no Python 3.10 to 3.13 with venv: install one, on Debian the package python3-venv"
        ;;
    ip)
        # Networks of pods on one machine; nft opens their way out.
        command -v ip >/dev/null && command -v nft >/dev/null || apt iproute2 nftables ||
            command -v ip >/dev/null || fail "no ip: install it, on Debian the package iproute2"
        ;;
    helm)
        has helm helm || { xtask/setup.sh go && build_helm; }
        ;;
    kubectl)
        has kubectl kubernetes || { xtask/setup.sh go && build_kubectl; }
        ;;
    musl)
        # The operator's image has no libraries. ring is C in part.
        command -v musl-gcc >/dev/null || apt musl-tools ||
            fail "no musl-gcc: install it, on Debian the package musl-tools"
        rustup target list --installed | grep --quiet x86_64-unknown-linux-musl ||
            rustup target add x86_64-unknown-linux-musl
        ;;
    nodes)
        # Real nodes on this machine, and what makes their images.
        [ "$(id -u)" = 0 ] || fail "real nodes need root: namespaces, mounts and control groups"
        xtask/setup.sh ip
        # Not those that are there: a runtime of Docker's own excludes that of Debian.
        missing=()
        for program in conntrack containerd iptables mmdebstrap runc; do
            command -v $program >/dev/null || missing+=($program)
        done
        [ -x /usr/lib/cni/ptp ] || missing+=(containernetworking-plugins)
        [ ${#missing[@]} = 0 ] || apt "${missing[@]}" || fail "install ${missing[*]}"
        ;;
    *) fail "unknown tool $tool" ;;
    esac
done
