// SPDX-License-Identifier: Apache-2.0
#include "ops/side_reader.h"

#include "ops/backend.h"

namespace litespark {
namespace {

class ImmediateSideReader final : public SideReader {
 public:
  explicit ImmediateSideReader(Backend& backend) : backend_(backend) {}

  void follow() override { backend_.synchronize(); }
  void read(void* destination, const void* source, int64_t bytes) override {
    backend_.copy_to_host(destination, source, bytes);
  }

 private:
  Backend& backend_;
};

}  // namespace

std::unique_ptr<SideReader> make_immediate_side_reader(Backend& backend) {
  return std::make_unique<ImmediateSideReader>(backend);
}

std::unique_ptr<SideReader> Backend::make_side_reader() {
  return make_immediate_side_reader(*this);
}

}  // namespace litespark
