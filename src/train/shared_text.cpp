// SPDX-License-Identifier: Apache-2.0
#include "train/shared_text.h"

#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace litespark {
namespace {

/// Larger ones are no settings.
constexpr int64_t kMostBytes = int64_t{64} << 20;

/// `bytes` of one rank, on every rank.
void broadcast(int root, Communicator& ranks, Backend& backend, void* data, int64_t bytes) {
  const auto memory = backend.allocate(bytes);
  backend.copy_to_device(memory->data(), data, bytes);
  ranks.wait(ranks.broadcast(
      {.data = memory->data(), .dtype = DType::kU8, .shape = {bytes}, .device = backend.device()}, root));
  backend.copy_to_host(data, memory->data(), bytes);
}

void append(std::string& out, const std::string& text) {
  const auto size = static_cast<uint64_t>(text.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof(size));
  out += text;
}

/// The text that append wrote at `at`, which moves behind it.
std::string take(const std::string& from, size_t& at) {
  uint64_t size = 0;
  if (from.size() - at < sizeof(size)) throw InternalError("shared_text", "ends within a length", from.size(), at);
  std::memcpy(&size, from.data() + at, sizeof(size));
  at += sizeof(size);
  if (from.size() - at < size) throw InternalError("shared_text", "ends within a text", from.size() - at, size);
  std::string text = from.substr(at, size);
  at += size;
  return text;
}

std::string text_of_rank(int root, Communicator* ranks, Backend& backend, const std::string& text) {
  if (ranks == nullptr) return text;
  auto size = static_cast<int64_t>(text.size());
  broadcast(root, *ranks, backend, &size, sizeof(size));
  if (size < 0 || size > kMostBytes)
    throw CommError("shared_text", "a rank's text has no such size", size, "0 to " + std::to_string(kMostBytes));
  if (size == 0) return {};
  std::string shared = ranks->rank() == root ? text : std::string(static_cast<size_t>(size), '\0');
  broadcast(root, *ranks, backend, shared.data(), size);
  return shared;
}

}  // namespace

std::string from_first_rank(Communicator* ranks, Backend& backend, const std::string& text) {
  return text_of_rank(0, ranks, backend, text);
}

std::vector<std::string> from_all_ranks(Communicator* ranks, Backend& backend, const std::string& text) {
  if (ranks == nullptr) return {text};
  constexpr int64_t kBytes = 256;
  std::string own = text.substr(0, kBytes - 1);
  own.resize(kBytes, '\0');
  const auto memory = backend.allocate(kBytes * ranks->size());
  auto* const mine = static_cast<char*>(memory->data()) + kBytes * ranks->rank();
  backend.copy_to_device(mine, own.data(), kBytes);
  const auto bytes = [&](void* data, int64_t count) {
    return Tensor{.data = data, .dtype = DType::kU8, .shape = {count}, .device = backend.device()};
  };
  ranks->wait(ranks->all_gather(bytes(memory->data(), memory->bytes()), bytes(mine, kBytes)));
  std::string all(static_cast<size_t>(memory->bytes()), '\0');
  backend.copy_to_host(all.data(), memory->data(), memory->bytes());
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < ranks->size(); ++rank) texts.emplace_back(all.c_str() + kBytes * rank);
  return texts;
}

std::map<std::string, std::string> from_rank(int rank, Communicator* ranks, Backend& backend,
                                             const std::map<std::string, std::string>& texts) {
  if (ranks == nullptr) return texts;
  std::string all;
  for (const auto& [name, text] : texts) {
    append(all, name);
    append(all, text);
  }
  const std::string shared = text_of_rank(rank, ranks, backend, all);
  std::map<std::string, std::string> result;
  for (size_t at = 0; at < shared.size();) {
    const std::string name = take(shared, at);
    result[name] = take(shared, at);
  }
  return result;
}

std::map<std::string, std::string> from_first_rank(Communicator* ranks, Backend& backend,
                                                   const std::map<std::string, std::string>& texts) {
  return from_rank(0, ranks, backend, texts);
}

}  // namespace litespark
