#!/usr/bin/env bash
# What there is on the machine of the cluster with this state directory, a line each:
# xtask/testbed/traces.sh STATE
# `make test-nodes` fails when there is more after `down` than before `up`. What names another
# cluster is left out: that may come and go meanwhile.
set -euo pipefail
state=$(realpath --no-symlinks --canonicalize-missing "$1")
here=$(realpath "$(dirname "$0")")

# Links, control groups and routes are named after a bridge, whose alias is the state of its
# cluster. Where there is no bridge any more, they were left behind.
print_ours() { # what: prints those of its input that are not another cluster's
    local name bridge owner
    while read -r name; do
        bridge=$(grep --only-matching --extended-regexp --max-count=1 'paddle[0-9]+' <<<"$name")
        owner=$(cat "/sys/class/net/$bridge/ifalias" 2>/dev/null || true)
        if [ -z "$owner" ] || [ "$owner" = "$state" ]; then echo "$1 $name"; fi
    done
}
find /sys/class/net -maxdepth 1 -name 'paddle[0-9]*' -printf '%f\n' | print_ours link
find /sys/fs/cgroup -maxdepth 2 -type d -name 'paddle[0-9]*-*' | print_ours cgroup
ip route show table all | { grep --extended-regexp 'dev paddle[0-9]+' || true; } | print_ours route

{ grep --fixed-strings "$state/" /proc/mounts || true; } | sed 's/^/mount /'
# Not as an argument, which would be on the command line of grep.
for process in $(grep --fixed-strings --text --files-with-matches --file=<(echo "$state/") \
    /proc/[0-9]*/cmdline 2>/dev/null || true); do
    echo "process $process $(tr '\0' ' ' <"$process" || true)"
done

# What nodes set or cover is theirs alone.
for setting in $(grep --only-matching --extended-regexp '(kernel|net|vm)/[a-z0-9_/]+' "$here/node/init.sh"); do
    if [ -e "/proc/sys/$setting" ]; then echo "sysctl $setting=$(cat "/proc/sys/$setting")"; fi
done
