#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times all-reduces between hosts, which are network namespaces of this machine on a bridge, by way and by rate of links.

    host_ways.py BUILD_FOLDER [tiers|levels] [--hosts N] [--ranks-per-host L] [--rate 1gbit] [--mtu 9000] [--rounds N]
                 [--most-bytes B] [--realtime]

Needs root. Prints what rank 0 of bench_host_ways prints (build with -DLITESPARK_BENCH=ON).
"""
import argparse
import os
import pathlib
import subprocess
import tempfile


def ip(*words, space=None):
    subprocess.run(["ip", *(["-n", space] if space else []), *words], check=True)


class Hosts:
    """Namespaces, each with one link to a bridge in a namespace of its own; all go with the `with` block."""

    def __init__(self, count, rate, mtu):
        self.names = [f"bench-{os.getpid()}-{i}" for i in range(count)]
        self.middle = f"bench-{os.getpid()}-middle"
        self.rate = rate
        self.mtu = mtu

    def __enter__(self):
        ip("netns", "add", self.middle)
        ip("link", "add", "name", "hosts", "type", "bridge", "mcast_snooping", "0", space=self.middle)
        ip("link", "set", "hosts", "up", space=self.middle)
        for i, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("link", "add", "name", "net0", "mtu", self.mtu, "netns", name, "type", "veth", "peer", "name", f"to{i}",
               "mtu", self.mtu, "netns", self.middle)
            ip("link", "set", "lo", "up", space=name)
            ip("addr", "add", f"{self.address(i)}/16", "dev", "net0", space=name)
            ip("link", "set", "net0", "up", space=name)
            ip("link", "set", f"to{i}", "master", "hosts", space=self.middle)
            ip("link", "set", f"to{i}", "up", space=self.middle)
            for space, device in ((name, "net0"), (self.middle, f"to{i}")):
                if self.rate:
                    subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", self.rate,
                                    "burst", "128kb", "latency", "50ms"], check=True)
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.middle]:
            subprocess.run(["ip", "netns", "del", name], check=False)

    @staticmethod
    def address(host):
        return f"10.78.{host}.2"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("what", choices=["tiers", "levels"], default="tiers", nargs="?")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--ranks-per-host", type=int, default=1)
    parser.add_argument("--rate", default="")
    parser.add_argument("--mtu", default="1500")
    parser.add_argument("--rounds", default="21")
    parser.add_argument("--realtime", action="store_true", help="above everything else that runs, for some seconds")
    parser.add_argument("--most-bytes", default=str(16 << 20))
    options = parser.parse_args()
    size = options.hosts * options.ranks_per_host
    print(f"{options.what}: {options.hosts} hosts of {options.ranks_per_host}, rate {options.rate or 'unlimited'}, "
          f"MTU {options.mtu}, {options.rounds} rounds; ms", flush=True)
    with Hosts(options.hosts, options.rate, options.mtu) as hosts, tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder) / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(os.urandom(32))
        ranks = [
            subprocess.Popen(["ip", "netns", "exec", hosts.names[rank // options.ranks_per_host],
                              *(["chrt", "-r", "1"] if options.realtime else []), options.build / "bench/bench_host_ways", options.what, str(rank), str(size),
                              f"{hosts.address(0)}:29500", secret, options.rounds, options.most_bytes])
            for rank in range(size)
        ]
        codes = [rank.wait(timeout=300) for rank in ranks]
    raise SystemExit(max(codes))


if __name__ == "__main__":
    main()
