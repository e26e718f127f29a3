#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a minimal Debian or Ubuntu root in a temporary folder, clones this repository's HEAD into it and runs a command there,
# as a new user would. Needs root and mmdebstrap. Packages come from the Debian sources that this machine already uses, or from
# those in FILE (lines of sources.list; for Ubuntu, install Debian's ubuntu-keyring first).
#   tools/fresh_root.sh [--keep] [--sources FILE --suite NAME] [COMMAND ...]
# The default command is ./quickstart.sh; another would be ./test.sh fast.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=0 sources_file='' suite=''
while [ "$#" != 0 ]; do
  case "$1" in
    --keep) keep=1; shift ;;
    --sources) sources_file=$2; shift 2 ;;
    --suite) suite=$2; shift 2 ;;
    *) break ;;
  esac
done
if [ "$#" = 0 ]; then set -- ./quickstart.sh; fi
if [ "$(id -u)" != 0 ]; then echo "fresh_root: needs root" >&2; exit 2; fi
if ! command -v mmdebstrap >/dev/null; then
  apt-get install -y -q --no-install-recommends mmdebstrap </dev/null
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/litespark-root.XXXXXX")
cleanup() {
  if [ "$keep" = 1 ]; then echo "fresh_root: kept $root"; else rm -rf --one-file-system "$root"; fi
}
trap cleanup EXIT
chmod 755 "$root"

if [ -n "$sources_file" ]; then
  sources=$(cat "$sources_file")
else
  sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' 'Origin: Debian' |
    sort -u)
fi
suite=${suite:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
apt_options=()
while read -r option; do
  if [ -n "$option" ]; then apt_options+=(--aptopt="$option"); fi
done < <(apt-config dump --no-empty | grep -E '^Acquire::(http|https)::Proxy' || true)

echo "fresh_root: a minimal $suite ($(date -u +%H:%M:%S))"
printf '%s\n' "$sources" |
  mmdebstrap --quiet --mode=root --variant=minbase --include=apt "${apt_options[@]}" "$suite" "$root" -

git clone -q --no-hardlinks . "$root/root/litespark"
echo "fresh_root: $(git rev-parse --short HEAD): $* ($(date -u +%H:%M:%S))"
start=$(date +%s)
status=0
# A mount namespace of its own: /proc, /sys and /dev of the new root vanish with it. The root is a mount point, as it is on a
# real machine: network namespaces, which the tests make, need that.
unshare --mount --pid --fork -- bash -c '
  set -e
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  for file in /etc/resolv.conf /etc/hosts; do cp -L "$file" "$root/etc/"; done
  exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    bash -c "cd /root/litespark && exec \"\$@\"" bash "$@"
' bash "$root" "$@" </dev/null || status=$?
echo "fresh_root: exit status $status after $(($(date +%s) - start)) s"
exit "$status"
