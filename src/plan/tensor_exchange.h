// SPDX-License-Identifier: Apache-2.0
// What tensor-parallel ranks wait for, and lose, while rows travel in stretches beside the products that read or make
// them (docs/tensor-parallel.md), in closed form: what plan/tape_time.h finds call by call.
#pragma once

#include "plan/collective_time.h"

namespace litespark {

/// Of one linear layer: y, and the gradients of its input and of its weight.
struct ProductSeconds {
  double forward = 0;
  double input = 0;
  double weight = 0;
};

/// Seconds beyond the products'.
struct ExchangeSeconds {
  double forward = 0;
  double backward = 0;
};

/// [N, C] activations of `bytes` as ranks exchange them.
struct RowsExchange {
  double bytes = 0;
  double stretches = 1;
  Group group;
  const Hardware& hardware;

  double gather_seconds() const;  ///< of one stretch
  double sum_seconds() const;
};

/// A layer that reads gathered rows (`cut_columns`: q k v, gate and up) and the one behind it, whose parts are summed
/// (`cut_rows`: o, down).
ExchangeSeconds pair_exchange(const ProductSeconds& cut_columns, const ProductSeconds& cut_rows,
                              const RowsExchange& rows);

/// In front of the head and behind the embedding nothing is there to hide a call.
ExchangeSeconds ends_exchange(const RowsExchange& rows);

}  // namespace litespark
