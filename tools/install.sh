#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing Debian/Ubuntu packages of a package set; does nothing when everything is there.
#   tools/install.sh build          what the litespark program needs
#   tools/install.sh quickstart     the above, and the text that ./quickstart.sh trains on
#   tools/install.sh dist           build, and what runs of several processes on CPUs talk through
#   tools/install.sh test           the above, and what ./test.sh needs
#   tools/install.sh tsan           the above, and a clang with the thread sanitizer's runtime
#   tools/install.sh --list test    prints the packages and installs nothing
set -euo pipefail

# One package a line. `a|b` means: a, or b on a system that has no a.
build_packages='
  build-essential
  cmake
  ninja-build
  ccache
  pkg-config
  libdnnl-dev
  libtomlplusplus-dev
  libfmt-dev
  nlohmann-json3-dev
  libsimdjson-dev
  libpcre2-dev
  libutf8proc-dev
  libxxhash-dev
  libzstd-dev
  zlib1g-dev
'
optional_packages='
  libgloo-dev
  libnorm-dev
  libopenmpi-dev
  openmpi-bin
'
test_packages='
  git
  python3
  libgtest-dev
  librapidcheck-dev
  iproute2
  nftables
  chromium
  strace
  clang-format-14|clang-format
  clang-tidy-14|clang-tidy
  libomp-14-dev|libomp-dev
'
tsan_packages='
  clang-14
  libclang-rt-14-dev
'
# libomp: omp.h as clang-tidy reads it, and the runtime that the thread sanitizer watches.
# clang-format-14, clang-tidy-14: other versions format and warn differently, the checks are skipped with them.

list_only=0
if [ "${1:-}" = --list ]; then list_only=1; shift; fi
case "${1:-}" in
  build) packages=$build_packages ;;
  quickstart) packages="$build_packages bible-kjv" ;;
  dist) packages="$build_packages $optional_packages" ;;
  test) packages="$build_packages $optional_packages $test_packages" ;;
  tsan) packages="$build_packages $optional_packages $test_packages $tsan_packages" ;;
  *) echo "usage: tools/install.sh [--list] build|quickstart|dist|test|tsan" >&2; exit 2 ;;
esac
if [ "$list_only" = 1 ]; then printf '%s\n' $packages; exit 0; fi

is_installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
any_installed() {
  local name
  for name in ${1//|/ }; do is_installed "$name" && return 0; done
  return 1
}

if ! command -v apt-get >/dev/null; then
  echo "install: no apt-get here; these packages, or what your system calls them, are needed:" >&2
  printf '  %s\n' $packages >&2
  exit 0
fi

missing=()
for package in $packages; do any_installed "$package" || missing+=("$package"); done
if [ "${#missing[@]}" = 0 ]; then exit 0; fi

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
  echo "install: missing packages and neither root nor sudo: ${missing[*]}" >&2
  exit 1
fi

has_candidate() {
  local candidate
  candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != "(none)" ]
}
choose_all() {
  chosen=()
  local group name
  for group in "${missing[@]}"; do
    for name in ${group//|/ }; do
      if has_candidate "$name"; then chosen+=("$name"); continue 2; fi
    done
    return 1
  done
}
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a \
    apt-get install -y -q --no-install-recommends -o Dpkg::Use-Pty=0 "${chosen[@]}" </dev/null
}

echo "install: ${missing[*]}"
# A fresh machine has no package index, an old one has a stale index: refresh it only when it is needed.
if ! choose_all || ! apt_install; then
  as_root apt-get update -q </dev/null
  if ! choose_all; then
    echo "install: no package for one of: ${missing[*]}" >&2
    exit 1
  fi
  apt_install
fi
