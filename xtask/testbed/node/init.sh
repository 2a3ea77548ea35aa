#!/bin/bash
# The first process of a real node: init.sh DIRECTORY CACHE CGROUP NAME
# `cargo xtask cluster` starts it in namespaces of its own. When it ends, for whatever
# reason, the kernel ends everything on the node and takes its mounts and links away.
set -euo pipefail
dir=$1 cache=$2 cgroup=$3 name=$4
logs=$dir/../../log

# The node sees the machine's files; what it and its pods change stays in its directory.
cd "$dir"
mkdir -p upper work root lib log
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys # for its own network
mount --rbind /sys/fs/cgroup root/sys/fs/cgroup
mount --rbind /dev root/dev
for memory in run tmp dev/shm; do mount -t tmpfs tmpfs "root/$memory"; done
# An overlay cannot carry the overlays of containers.
mount --bind lib root/var/lib
mount --bind log root/var/log
# It may be on another file system, or below those two. The binaries and this directory are in it.
mkdir -p "root$cache"
mount --bind "$cache" "root$cache"
cd root
pivot_root . .
umount --lazy .
cd /
# What a CSI driver mounts in its container must reach the others.
mount --make-rshared /

# The kubelet wants these values, and would else set them for the whole machine.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=/run/sysctl/${setting%=*}
    mkdir -p "${file%/*}"
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
done

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup/$cgroup"
else
    for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller$cgroup"; done
    # In a new set there is nothing yet, and nothing could run.
    for list in cpus mems; do
        cat "/sys/fs/cgroup/cpuset/cpuset.$list" >"/sys/fs/cgroup/cpuset/$cgroup/cpuset.$list"
    done
fi

hostname "$name"
until [ -e /sys/class/net/eth0 ]; do sleep 0.02; done
ip -batch "$dir/network"
address=$(ip -o -4 address show eth0 | sed -E 's#.*inet ([0-9.]+)/.*#\1#')
# Pods on the network of the node have its name, and programs look up their own.
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >/etc/hosts
echo 1 >/proc/sys/net/ipv4/ip_forward

# Starts a program, and again when it ends, as the service manager of a node does.
keep() { # program argument…
    while :; do
        "$@" || true
        sleep 1
    done >>"$logs/$name-$(basename "$1").log" 2>&1 </dev/null &
}

keep containerd --config "$dir/containerd.toml"
# The kubelet gives up when there is none.
until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done
keep "$cache/bin/kubelet" --config="$dir/kubelet.json" --kubeconfig="$dir/../../$name.kubeconfig" \
    --hostname-override="$name" --node-ip="$address"
# Limits of connection tracking are the machine's, and not ours to change.
keep "$cache/bin/kube-proxy" --kubeconfig="$dir/../../kube-proxy.kubeconfig" --hostname-override="$name" \
    --proxy-mode=iptables --conntrack-max-per-core=0 \
    --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
wait
