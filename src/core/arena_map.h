// SPDX-License-Identifier: Apache-2.0
// Which bytes of an arena are taken at which ops. A tree over the ops holds at every node the bytes that are taken
// somewhere among its ops, and those taken throughout, as runs. So a gap is found by looking at the runs of a few nodes
// and not at everything that was placed before: planning takes about n log n, also with thousands of layers.
#pragma once

#include <cstdint>
#include <vector>

namespace litespark {

/// Ops [first, last] of a phase.
struct OpRange {
  int32_t first = 0;
  int32_t last = 0;
};

/// Bytes as runs that neither touch nor overlap.
class ByteRuns {
 public:
  void add(int64_t begin, int64_t end);
  /// The lowest place at or behind `offset` where `bytes` (more than 0) fit between the runs, either there or right
  /// behind a run.
  int64_t next_fit(int64_t offset, int64_t bytes) const;

 private:
  struct Run {
    int64_t begin;
    int64_t end;
  };
  std::vector<Run> runs_;  ///< by address
};

class ArenaMap {
 public:
  explicit ArenaMap(int32_t num_ops);

  /// Takes [begin, end) during `ops`.
  void take(int64_t begin, int64_t end, OpRange ops);
  /// The lowest place for `bytes` (more than 0) that is free during all of `ops`: 0 or the end of something taken.
  int64_t first_fit(int64_t bytes, OpRange ops) const;

 private:
  /// Of the ops below it.
  struct Node {
    ByteRuns somewhere;   ///< taken at one of them or more
    ByteRuns throughout;  ///< taken at all of them; what the nodes above have throughout is not repeated
  };
  /// Calls `visit(node, is_inside)` for nodes from the root down whose ops meet `ops`, and not below those inside.
  template <class Visit>
  void descend(OpRange ops, const Visit& visit) const;

  int32_t num_leaves_ = 1;   ///< a power of two
  std::vector<Node> nodes_;  ///< that of all ops is 1, the halves of node n are 2n and 2n + 1
};

}  // namespace litespark
