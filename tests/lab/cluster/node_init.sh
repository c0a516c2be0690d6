# Makes what it is started in, fresh mount, UTS, IPC and PID namespaces, a node of its own, and becomes its first process.
#
#   sh node_init.sh NAME DIRECTORY PODTOOL
#
# DIRECTORY is the node's disk: it outlives the node. Nothing that is mounted here is seen outside.
set -eu
name=$1 dir=$2 podtool=$3

mount --make-rprivate /
hostname "$name"
mount -t proc proc /proc

# A sysfs of this network namespace, with the machine's control groups under it as before.
mkdir -p "$dir/cgroup"
mount --rbind /sys/fs/cgroup "$dir/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$dir/cgroup" /sys/fs/cgroup
umount -R -l "$dir/cgroup"

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock /run/containerd
# What the node writes there stays in its directory.
for top in etc opt var; do
  mkdir -p "$dir/overlay/$top" "$dir/overlay/.$top"
  mount -t overlay overlay -o "lowerdir=/$top,upperdir=$dir/overlay/$top,workdir=$dir/overlay/.$top" "/$top"
done
# Plain directories, which the test can reach too.
keep() {
  mkdir -p "$dir/$1" "$2"
  mount --bind "$dir/$1" "$2"
}
keep cni-conf /etc/cni/net.d
keep cni-bin /opt/cni/bin
keep kubelet /var/lib/kubelet
keep containerd /var/lib/containerd
keep pod-logs /var/log/pods
mkdir -p /var/log/containers
mount --make-rshared /

# kubelet wants these, which are the whole machine's, to have values of its own: it finds them.
mkdir -p "$dir/sysctl"
pretend() {
  file=$dir/sysctl/$(echo "$1" | tr / _)
  echo "$2" >"$file"
  mount --bind "$file" "/proc/sys/$1"
}
pretend vm/overcommit_memory 1
pretend vm/panic_on_oom 0
pretend kernel/panic 10
pretend kernel/panic_on_oops 1
pretend kernel/keys/root_maxkeys 1000000
pretend kernel/keys/root_maxbytes 25000000

echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
touch /run/booted
exec "$podtool" pause
