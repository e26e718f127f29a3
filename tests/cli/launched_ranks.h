// SPDX-License-Identifier: Apache-2.0
// Tests whose ranks are processes: a port for them to meet at, and what is asked of the runs they leave.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace litespark {

/// As the program says it where the library was not there at build time; ./test.sh installs it.
inline constexpr const char* kNoEngine = "this build has no Gloo";

/// Values of a key of metrics.jsonl, in order.
inline std::vector<double> values_of(const std::string& metrics, const std::string& key) {
  const std::string wanted = "\"" + key + "\": ";
  std::vector<double> values;
  for (size_t at = metrics.find(wanted); at != std::string::npos; at = metrics.find(wanted, at + 1)) {
    values.push_back(std::stod(metrics.substr(at + wanted.size())));
  }
  return values;
}

inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
}

/// A port that nobody listens on.
inline std::string free_port() {
  const int socket_number = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(socket_number, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(socket_number, reinterpret_cast<sockaddr*>(&address), &size);
  close(socket_number);
  return std::to_string(ntohs(address.sin_port));
}

}  // namespace litespark
