// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_exchange.h"

#include <algorithm>

namespace litespark {
namespace {

/// One call after the other beside a product of as many stretches, the first (or the last) of them alone.
double exposed_beside(double call, double product, double stretches) {
  return call + (stretches - 1) * std::max(0.0, call - product / stretches);
}

/// The input is gathered again beside its gradient's product; the sum of that leaves beside the weight's.
double exposed_behind(double gather, double sum, const ProductSeconds& product, double stretches) {
  const double gathered = stretches * gather;
  const double first_sum = std::max(gathered, product.input / stretches);
  const double summed = std::max(first_sum + stretches * sum, product.input + sum);
  const double computed = std::max(product.input, gathered) + product.weight;
  return std::max(summed, computed) - product.input - product.weight;
}

/// `exposed` of calls that take `total`: the ops beside the rest lose their share of `contention`.
double with_contention(double exposed, double total, double contention) {
  return total > 0 ? exposed + contention * std::max(0.0, 1 - exposed / total) : 0;
}

double contention_of(Collective kind, const RowsExchange& rows) {
  return contention_seconds(kind, rows.bytes, static_cast<double>(rows.group.ranks), rows.hardware);
}

}  // namespace

double RowsExchange::gather_seconds() const {
  return collective_seconds(Collective::kAllGather, bytes / stretches, group, hardware);
}

double RowsExchange::sum_seconds() const {
  return collective_seconds(Collective::kReduceScatter, bytes / stretches, group, hardware);
}

ExchangeSeconds pair_exchange(const ProductSeconds& cut_columns, const ProductSeconds& cut_rows,
                              const RowsExchange& rows) {
  const double gather = rows.gather_seconds();
  const double sum = rows.sum_seconds();
  const double s = rows.stretches;
  const double gather_lost = contention_of(Collective::kAllGather, rows);
  const double sum_lost = contention_of(Collective::kReduceScatter, rows);
  const double forward = exposed_beside(gather, cut_columns.forward, s) + exposed_beside(sum, cut_rows.forward, s);
  const double backward = exposed_beside(gather, cut_rows.input, s) + exposed_behind(gather, sum, cut_columns, s);
  return {.forward = with_contention(forward, s * (gather + sum), gather_lost + sum_lost),
          .backward = with_contention(backward, s * (2 * gather + sum), 2 * gather_lost + sum_lost)};
}

ExchangeSeconds ends_exchange(const RowsExchange& rows) {
  const double calls = rows.stretches * (rows.gather_seconds() + rows.sum_seconds());
  return {.forward = calls, .backward = calls};
}

}  // namespace litespark
