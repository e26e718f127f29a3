// SPDX-License-Identifier: Apache-2.0
#include "support/faulty_backend.h"

#include <chrono>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace litespark::test {

/// Reads when it is waited for, as a device that is far behind the host: whatever was issued in between must not have
/// changed the bytes, so they are taken at the start.
class FaultyBackend::LateRead final : public AsyncRead {
 public:
  LateRead(FaultyBackend& backend, int64_t bytes)
      : backend_(backend), read_(make_immediate_read(*backend.inner_, bytes)) {}

  void start(const void* source) override {
    read_->start(source);
    is_waited_for_ = false;
  }
  bool is_done() override {
    backend_.throw_if_broken("read");
    return is_waited_for_ || !backend_.faults_.reads_late;
  }
  const void* wait() override {
    backend_.throw_if_broken("read");
    is_waited_for_ = true;
    return read_->wait();
  }
  double seconds_since(const AsyncRead& earlier) const override {
    return read_->seconds_since(*static_cast<const LateRead&>(earlier).read_);
  }

 private:
  FaultyBackend& backend_;
  std::unique_ptr<AsyncRead> read_;
  bool is_waited_for_ = false;
};

class FaultyBackend::WaitingReader final : public SideReader {
 public:
  explicit WaitingReader(FaultyBackend& backend)
      : backend_(backend), reader_(make_immediate_side_reader(*backend.inner_)) {}

  void follow() override { reader_->follow(); }
  void read(void* destination, const void* source, int64_t bytes) override {
    for (int i = 0; i < 10'000 && backend_.ops_run_ < backend_.faults_.side_reads_wait_for_ops; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (backend_.ops_run_ < backend_.faults_.side_reads_wait_for_ops)
      throw DeviceError("side read", "ops were held up");
    backend_.throw_if_broken("side read");
    reader_->read(destination, source, bytes);
  }

 private:
  FaultyBackend& backend_;
  std::unique_ptr<SideReader> reader_;
};

std::unique_ptr<SideReader> FaultyBackend::make_side_reader() {
  return std::make_unique<WaitingReader>(*this);
}

void FaultyBackend::set_faults(Faults faults) {
  faults_ = std::move(faults);
  ops_run_ = 0;
  planted_ = 0;
  is_broken_ = false;
}

void FaultyBackend::throw_if_broken(const char* what) const {
  if (is_broken_) throw DeviceError(what, "planted: the device is broken");
}

void FaultyBackend::copy_to_device(void* destination, const void* source, int64_t bytes) {
  inner_->copy_to_device(destination, source, bytes);
}

void FaultyBackend::copy_to_host(void* destination, const void* source, int64_t bytes) {
  throw_if_broken("copy_to_host");
  inner_->copy_to_host(destination, source, bytes);
}

std::unique_ptr<AsyncRead> FaultyBackend::make_async_read(int64_t bytes) {
  return std::make_unique<LateRead>(*this, bytes);
}

void FaultyBackend::synchronize() {
  throw_if_broken("synchronize");
  inner_->synchronize();
}

void FaultyBackend::before(int64_t index, std::string_view op) {
  if (index == faults_.fail_late_at) {
    is_broken_ = true;
    ++planted_;
  }
  if (faults_.refuse_op && index >= *faults_.refuse_op) {
    is_broken_ = true;
    ++planted_;
    throw DeviceError(op, "planted: the op was refused");
  }
}

void FaultyBackend::flip_one_of(std::string_view op, const std::vector<std::pair<std::string, Tensor>>& outputs) {
  if (outputs.empty()) return;
  const RandomStream random(faults_.flip_seed, 0);
  const auto& [name, tensor] = outputs[random.below(0, outputs.size())];
  auto* const bytes = static_cast<unsigned char*>(tensor.data);
  bytes[random.below(1, static_cast<uint64_t>(tensor.bytes()))] ^= static_cast<unsigned char>(1u << random.below(2, 8));
  flipped_ = std::string(op) + " " + name;
  ++planted_;
}

}  // namespace litespark::test
