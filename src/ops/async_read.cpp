// SPDX-License-Identifier: Apache-2.0
#include "ops/async_read.h"

#include <chrono>
#include <vector>

#include "ops/backend.h"

namespace litespark {
namespace {

class ImmediateRead final : public AsyncRead {
 public:
  ImmediateRead(Backend& backend, int64_t bytes) : backend_(backend), bytes_(static_cast<size_t>(bytes)) {}

  void start(const void* source) override {
    backend_.copy_to_host(bytes_.data(), source, static_cast<int64_t>(bytes_.size()));
    reached_ = std::chrono::steady_clock::now();
  }
  bool is_done() override { return true; }
  const void* wait() override { return bytes_.data(); }
  double seconds_since(const AsyncRead& earlier) const override {
    return std::chrono::duration<double>(reached_ - static_cast<const ImmediateRead&>(earlier).reached_).count();
  }

 private:
  Backend& backend_;
  std::vector<std::byte> bytes_;
  std::chrono::steady_clock::time_point reached_;
};

}  // namespace

std::unique_ptr<AsyncRead> make_immediate_read(Backend& backend, int64_t bytes) {
  return std::make_unique<ImmediateRead>(backend, bytes);
}

std::unique_ptr<AsyncRead> Backend::make_async_read(int64_t bytes) {
  return make_immediate_read(*this, bytes);
}

}  // namespace litespark
