// SPDX-License-Identifier: Apache-2.0
// Several hosts on one machine: network namespaces, each with one link to a namespace in the middle. Links have a rate,
// lose packets, are cut and heal. Needs root, iproute2 and a kernel with namespaces; nothing touches the machine's own
// interfaces, and all of it goes with this object.
#pragma once

#include <string>
#include <vector>

namespace litespark::test {

/// A bridge passes frames, so that all hosts are one network, also for multicast. A router passes packets, and can lead
/// TCP connections through a proxy.
enum class Middle { kBridge, kRouter };

class NetworkHosts {
 public:
  /// Why there can be none here, in words for a skipped test; "" where there can.
  static std::string missing();

  /// Throws std::runtime_error.
  explicit NetworkHosts(int count, Middle middle = Middle::kBridge);
  ~NetworkHosts();
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  std::string address(int host) const;
  /// The words in front of a command that is to run on that host.
  std::vector<std::string> on(int host) const;
  /// "/run/netns/..." of the namespace in the middle.
  std::string middle_path() const;

  /// Both directions of every link: "1gbit", "100mbit".
  void limit_rate(const std::string& rate);
  /// A host loses so many of 1,000 packets that reach it, by chance.
  void lose_packets(int host, int of_thousand);
  void cut(int host);
  void heal(int host);
  /// Every TCP connection between hosts ends at this port of the router instead.
  void redirect_to(int port);

 private:
  std::string name(int host) const;
  std::string middle_name() const;
  void add_host(int host, Middle middle);

  std::string prefix_;
  int count_;
};

}  // namespace litespark::test
