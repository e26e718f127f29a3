// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name. Emulated blocks run one after another in the order of their tickets, so a
// turn that has not come when it is waited for never comes.
#pragma once

#include <cstdint>
#include <string>

#include "block.h"

namespace litespark::cuda {

inline int draw_ticket(int32_t* ticket) {
  return (*ticket)++;
}

inline void return_tickets(int32_t* tickets, int blocks) {
  if (++tickets[1] == blocks) tickets[0] = tickets[1] = 0;
}

inline void wait_for_turn(const int32_t* turns, int32_t turn) {
  if (*turns != turn) emulated::fail("turn " + std::to_string(turn) + " waits at " + std::to_string(*turns));
}

inline void pass_turn(int32_t* turns) {
  ++*turns;
}

}  // namespace litespark::cuda
