// SPDX-License-Identifier: Apache-2.0
// Takes the place of cli/backend_choice.cpp in a program for tests: the CPU backend behaves as a GPU that runs behind
// the host and fails as LITESPARK_TEST_FAULT says, for example "late=120" or "flip=3,only=embedding_backward".
#include "backend_choice.h"

#include <cstdlib>
#include <sstream>

#include "core/error.h"
#include "ops/cpu/cpu_backend.h"
#include "support/faulty_backend.h"

namespace litespark::cli {
namespace {

test::Faults faults_from_environment() {
  test::Faults faults{.reads_late = true};
  const char* const text = std::getenv("LITESPARK_TEST_FAULT");
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::string key = word.substr(0, word.find('='));
    const std::string value = word.substr(key.size() + 1);
    if (key == "refuse") faults.refuse_op = std::stoll(value);
    if (key == "late") faults.fail_late_at = std::stoll(value);
    if (key == "flip") faults.flip_bit_at = std::stoll(value);
    if (key == "only") faults.counts = [value](const std::string& op) { return op == value; };
  }
  return faults;
}

}  // namespace

std::string linked_backends() {
  return "faulty cpu";
}

int num_gpus() {
  return 0;
}

bool wants_cuda(const RunConfig&) {
  return false;
}

void* compute_stream_of(const Backend&) {
  return nullptr;
}

std::unique_ptr<Backend> make_backend(const RunConfig& config, int) {
  auto backend =
      std::make_unique<test::FaultyBackend>(make_cpu_backend({.threads = static_cast<int>(config.device.threads)}));
  backend->set_faults(faults_from_environment());
  return backend;
}

}  // namespace litespark::cli
