#!/usr/bin/env bash
# Makes sure that the named tools are there: xtask/setup.sh [cc] [cargo] [go] [ip] [kubectl] [python]
# Installs Debian packages when it may, else says what to install. Silent when all is well.
set -euo pipefail
cd "$(dirname "$0")/.."

apt() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing $*" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes "$@"; } >&2
}

# From 1.21 on Go fetches by itself the newer version that a go.mod asks for.
has_go() {
    local version
    version=$(GOTOOLCHAIN=local go version 2>/dev/null | sed -nE 's/.* go([0-9]+\.[0-9]+).*/\1/p')
    [ -n "$version" ] && printf '1.21\n%s\n' "$version" | sort --version-sort --check=quiet
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
    kubectl)
        # `make test-cluster` builds one.
        cache=${PADDLE_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/paddle-operator}
        [ -x "$cache/bin/kubectl" ] || command -v kubectl >/dev/null ||
            fail "no kubectl: install 1.31 or newer, see https://kubernetes.io/docs/tasks/tools"
        ;;
    *) fail "unknown tool $tool" ;;
    esac
done
