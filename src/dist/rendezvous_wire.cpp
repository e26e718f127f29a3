// SPDX-License-Identifier: Apache-2.0
#include "dist/rendezvous_wire.h"

#include <algorithm>
#include <map>
#include <set>

#include "dist/sha256.h"

namespace litespark::dist {
namespace {

constexpr std::string_view kMagic = "litespark rendezvous 1";
constexpr size_t kMostFacts = 4096;
constexpr size_t kMostDifferences = 10;

std::string mac(std::string_view key, std::string_view purpose, std::string_view a, std::string_view b,
                std::string_view body) {
  // Texts of known lengths behind each other: no two different inputs give the same message.
  const std::string message = Writer().text(purpose).text(a).text(b).text(body).bytes();
  return std::string(view_of(hmac_sha256(key, message)));
}

}  // namespace

std::string facts_difference(const JobFacts& found, const JobFacts& expected) {
  const std::map<std::string, std::string> here(found.begin(), found.end());
  const std::map<std::string, std::string> there(expected.begin(), expected.end());
  std::set<std::string> names;
  for (const auto& [name, value] : here) names.insert(name);
  for (const auto& [name, value] : there) names.insert(name);
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    const auto a = here.find(name);
    const auto b = there.find(name);
    if (a != here.end() && b != there.end() && a->second == b->second) continue;
    if (++count > kMostDifferences) continue;
    text += (text.empty() ? "" : "; ") + name + (a == here.end() ? " is absent" : " is " + a->second) +
            (b == there.end() ? ", rank 0 has none" : ", rank 0 has " + b->second);
  }
  if (count > kMostDifferences) text += "; and " + std::to_string(count - kMostDifferences) + " more";
  return text;
}

Writer& Writer::number(int64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8)
    text_.push_back(static_cast<char>((static_cast<uint64_t>(value) >> shift) & 0xff));
  return *this;
}

Writer& Writer::text(std::string_view value) {
  number(static_cast<int64_t>(value.size()));
  text_.append(value);
  return *this;
}

std::string_view Reader::take(size_t count) {
  if (count > rest_.size()) throw BadMessage();
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

Word Reader::word() {
  return static_cast<Word>(take(1).front());
}

int64_t Reader::number() {
  uint64_t value = 0;
  for (const char byte : take(8)) value = value << 8 | static_cast<unsigned char>(byte);
  return static_cast<int64_t>(value);
}

std::string Reader::text() {
  const int64_t count = number();
  if (count < 0) throw BadMessage();
  return std::string(take(static_cast<size_t>(count)));
}

void Reader::expect_end() const {
  if (!rest_.empty()) throw BadMessage();
}

std::string facts_text(const JobFacts& facts) {
  Writer writer(Word::kFacts);
  writer.number(static_cast<int64_t>(facts.size()));
  for (const auto& [name, value] : facts) writer.text(name).text(value);
  return writer.bytes();
}

JobFacts read_facts(Reader& reader) {
  const int64_t count = reader.number();
  if (count < 0 || count > static_cast<int64_t>(kMostFacts)) throw BadMessage();
  JobFacts facts;
  for (int64_t i = 0; i < count; ++i) {
    std::string name = reader.text();
    facts.emplace_back(std::move(name), reader.text());
  }
  reader.expect_end();
  return facts;
}

std::string join_message(const JobPlace& place, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view secret) {
  Writer body;
  body.text(kMagic).text(client_nonce).text(place.job).number(place.attempt).number(place.rank).number(place.size);
  return body.bytes() + mac(secret, "join", server_nonce, client_nonce, body.bytes());
}

Join read_join(std::string_view message, std::string_view server_nonce, std::string_view secret) {
  if (message.size() < kSealBytes) throw BadMessage();
  const std::string_view body = message.substr(0, message.size() - kSealBytes);
  Reader reader(body);
  if (reader.text() != kMagic) throw BadMessage();
  Join join;
  join.client_nonce = reader.text();
  join.place.job = reader.text();
  join.place.attempt = reader.number();
  const int64_t rank = reader.number();
  const int64_t size = reader.number();
  reader.expect_end();
  const std::string expected = mac(secret, "join", server_nonce, join.client_nonce, body);
  const bool is_proven = is_equal_in_constant_time(message.substr(message.size() - kSealBytes), expected);
  constexpr int64_t kMostRanks = 1 << 20;
  if (!is_proven || join.client_nonce.size() != kNonceBytes || size < 1 || size > kMostRanks || rank < 0 ||
      rank >= size)
    throw BadMessage();
  join.place.rank = static_cast<int>(rank);
  join.place.size = static_cast<int>(size);
  return join;
}

std::string proof_of_server(std::string_view client_nonce, std::string_view server_nonce, std::string_view secret) {
  return mac(secret, "server", client_nonce, server_nonce, {});
}

Session::Session(bool is_server, std::string_view client_nonce, std::string_view server_nonce, std::string_view secret)
    : key_(mac(secret, "session", client_nonce, server_nonce, {})), is_server_(is_server) {}

std::string Session::seal(const std::string& message) {
  const std::string place = Writer().number(num_sealed_++).bytes();
  return message + mac(key_, is_server_ ? "from server" : "from rank", place, {}, message);
}

std::string Session::open(const std::string& frame) {
  if (frame.size() < kSealBytes) throw BadMessage();
  std::string message = frame.substr(0, frame.size() - kSealBytes);
  const std::string place = Writer().number(num_opened_++).bytes();
  const std::string expected = mac(key_, is_server_ ? "from rank" : "from server", place, {}, message);
  if (!is_equal_in_constant_time(std::string_view(frame).substr(message.size()), expected)) throw BadMessage();
  return message;
}

}  // namespace litespark::dist
