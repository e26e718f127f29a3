// SPDX-License-Identifier: Apache-2.0
// Worker threads fill the next micro-batches while the current one trains. Order and content come from the source
// alone, so neither the number of workers nor their timing can change a run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch_source.h"

namespace litespark {

class Loader {
 public:
  struct Options {
    BatchShape shape;
    int64_t workers = 1;  ///< 0: batches are filled when they are asked for
    int64_t depth = 4;    ///< micro-batches held ready
    uint64_t first_index = 0;
  };

  /// `source` outlives the loader.
  Loader(const BatchSource& source, Options options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Micro-batch `index`, which must follow the one asked for before (or be first_index). Blocks until it is ready;
  /// throws what its worker threw. The reference stays valid until the next call.
  const Batch& get(uint64_t index);

  /// Host memory of the batches that are ready or in use.
  int64_t held_bytes();

 private:
  struct Slot {
    Batch batch;
    uint64_t index = 0;
    int64_t bytes = 0;  ///< the batch's, when it was last filled
    bool is_ready = false;
    std::exception_ptr failure;
  };

  void work();
  void stop();
  void fill(Slot& slot) const;

  const BatchSource& source_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  ///< batch i lives in slot i % size
  uint64_t next_to_claim_;   ///< lowest index that no worker has taken
  uint64_t next_to_give_;    ///< index that get() expects; everything before it may be overwritten
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace litespark
