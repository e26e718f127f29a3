// SPDX-License-Identifier: Apache-2.0
#include "support/network_hosts.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace litespark::test {
namespace {

constexpr const char* kFolder = "/run/netns";
constexpr const char* kPrefix = "litespark-";

bool succeeds(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

void must(const std::string& command) {
  if (!succeeds(command)) throw std::runtime_error("failed: " + command);
}

/// Those of a test that was killed; their names say which process made them.
void remove_left_behind() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const std::string process = name.substr(std::string(kPrefix).size(), name.rfind('-') - std::string(kPrefix).size());
    if (!std::filesystem::exists("/proc/" + process)) succeeds("ip netns del " + name);
  }
}

}  // namespace

std::string NetworkHosts::missing() {
  if (geteuid() != 0) return "network namespaces need root";
  const std::string name = std::string(kPrefix) + std::to_string(getpid()) + "-probe";
  if (!succeeds("ip netns add " + name)) return "ip netns add does not work here";
  const bool has_links = succeeds("ip -n " + name + " link add name probe type veth peer name other && ip -n " + name +
                                  " link add name bridge type bridge");
  succeeds("ip netns del " + name);
  return has_links ? "" : "this kernel has no veth or no bridge";
}

NetworkHosts::NetworkHosts(int count, Middle middle)
    : prefix_(std::string(kPrefix) + std::to_string(getpid()) + "-"), count_(count) {
  remove_left_behind();
  must("ip netns add " + middle_name());
  const std::string inside = "ip -n " + middle_name() + " ";
  must(inside + "link set lo up");
  if (middle == Middle::kBridge) {
    must(inside + "link add name hosts type bridge mcast_snooping 0");
    must(inside + "link set hosts up");
  } else {
    must("ip netns exec " + middle_name() + " sysctl -q -w net.ipv4.ip_forward=1");
  }
  for (int host = 0; host < count_; ++host) add_host(host, middle);
}

NetworkHosts::~NetworkHosts() {
  for (int host = 0; host < count_; ++host) succeeds("ip netns del " + name(host));
  succeeds("ip netns del " + middle_name());
}

void NetworkHosts::add_host(int host, Middle middle) {
  const std::string number = std::to_string(host);
  const std::string inside = "ip -n " + name(host) + " ";
  const std::string between = "ip -n " + middle_name() + " ";
  must("ip netns add " + name(host));
  must("ip link add name net0 netns " + name(host) + " type veth peer name to" + number + " netns " + middle_name());
  must(inside + "link set lo up");
  must(inside + "addr add " + address(host) + (middle == Middle::kBridge ? "/16" : "/24") + " dev net0");
  must(inside + "link set net0 up");
  if (middle == Middle::kBridge) {
    must(between + "link set to" + number + " master hosts");
    must(between + "link set to" + number + " up");
  } else {
    must(between + "addr add 10.77." + number + ".1/24 dev to" + number);
    must(between + "link set to" + number + " up");
    must(inside + "route add default via 10.77." + number + ".1");
  }
}

std::string NetworkHosts::name(int host) const {
  return prefix_ + std::to_string(host);
}

std::string NetworkHosts::middle_name() const {
  return prefix_ + "middle";
}

std::string NetworkHosts::middle_path() const {
  return std::string(kFolder) + "/" + middle_name();
}

std::string NetworkHosts::address(int host) const {
  return "10.77." + std::to_string(host) + ".2";
}

std::vector<std::string> NetworkHosts::on(int host) const {
  return {"ip", "netns", "exec", name(host)};
}

void NetworkHosts::limit_rate(const std::string& rate) {
  // A small bucket makes the kernel cut TCP's large packets up again, and the rate then depends on the processor.
  const std::string limit = " root tbf rate " + rate + " burst 128kb latency 50ms";
  for (int host = 0; host < count_; ++host) {
    must("tc -n " + name(host) + " qdisc replace dev net0" + limit);
    must("tc -n " + middle_name() + " qdisc replace dev to" + std::to_string(host) + limit);
  }
}

void NetworkHosts::lose_packets(int host, int of_thousand) {
  const std::string inside = "ip netns exec " + name(host) + " nft ";
  must(inside + "add table ip loss");
  must(inside + "'add chain ip loss in { type filter hook input priority 0 ; }'");
  must(inside + "add rule ip loss in meta l4proto '{ tcp, udp }' numgen random mod 1000 '<' " +
       std::to_string(of_thousand) + " drop");
}

void NetworkHosts::cut(int host) {
  must("ip -n " + middle_name() + " link set to" + std::to_string(host) + " down");
}

void NetworkHosts::heal(int host) {
  must("ip -n " + middle_name() + " link set to" + std::to_string(host) + " up");
}

void NetworkHosts::redirect_to(int port) {
  const std::string inside = "ip netns exec " + middle_name() + " nft ";
  must(inside + "add table ip nat");
  must(inside + "'add chain ip nat before { type nat hook prerouting priority -100 ; }'");
  must(inside + "add rule ip nat before meta l4proto tcp redirect to :" + std::to_string(port));
}

}  // namespace litespark::test
