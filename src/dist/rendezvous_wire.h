// SPDX-License-Identifier: Apache-2.0
// What the rendezvous and its ranks say to each other: fields in a frame, and the seal that shows who wrote it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace litespark::dist {

/// Which place in which job. Ranks of an older attempt, or of another job, are refused.
struct JobPlace {
  std::string job;
  int64_t attempt = 0;
  int rank = 0;
  int size = 1;
};

/// What must be equal on all ranks, by name: settings, hashes of program, data and tokenizer.
using JobFacts = std::vector<std::pair<std::string, std::string>>;

/// "optim.lr is 0.1, rank 0 has 0.2; ..." with at most ten differences written out; empty when there is none.
std::string facts_difference(const JobFacts& found, const JobFacts& expected);

constexpr size_t kNonceBytes = 16;
constexpr size_t kSealBytes = 32;
constexpr size_t kMostUnknownBytes = 4096;           ///< of a frame of somebody who has shown nothing yet
constexpr size_t kMostKnownBytes = size_t{4} << 20;  ///< of a frame of a rank

/// First letters of messages within a session.
enum class Word : char {
  kFacts = 'I',      ///< rank: its facts
  kSet = 'S',        ///< rank: key, value
  kGet = 'G',        ///< rank: key
  kValue = 'V',      ///< server: key, value
  kWelcome = 'W',    ///< server: all ranks are here and agree
  kRefused = 'F',    ///< server: why this rank, or the whole job, cannot start
  kLost = 'L',       ///< server: rank, what happened to it
  kHeartbeat = 'H',  ///< both
  kLeave = 'B',      ///< both: it is done
};

/// Appends numbers and texts to a message.
class Writer {
 public:
  Writer() = default;
  explicit Writer(Word word) { text_.push_back(static_cast<char>(word)); }
  Writer& number(int64_t value);
  Writer& text(std::string_view value);
  const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};

/// Thrown by Reader for what no writer wrote.
struct BadMessage {};

/// Takes them out again, trusting no length.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  Word word();
  int64_t number();
  std::string text();
  void expect_end() const;

 private:
  std::string_view take(size_t count);
  std::string_view rest_;
};

std::string facts_text(const JobFacts& facts);
JobFacts read_facts(Reader& reader);

/// The greeting of the server, the answer of a rank with its proof, and the server's proof.
std::string join_message(const JobPlace& place, std::string_view client_nonce, std::string_view server_nonce,
                         std::string_view secret);
struct Join {
  JobPlace place;
  std::string client_nonce;
};
/// Throws BadMessage, also when the proof is wrong.
Join read_join(std::string_view message, std::string_view server_nonce, std::string_view secret);
std::string proof_of_server(std::string_view client_nonce, std::string_view server_nonce, std::string_view secret);

/// Both directions of one connection after the proofs: each message is sealed with its place in the order.
class Session {
 public:
  Session() = default;
  Session(bool is_server, std::string_view client_nonce, std::string_view server_nonce, std::string_view secret);
  std::string seal(const std::string& message);
  /// Throws BadMessage when the seal is not the next one of the peer.
  std::string open(const std::string& frame);

 private:
  std::string key_;
  bool is_server_ = false;
  int64_t num_sealed_ = 0;
  int64_t num_opened_ = 0;
};

}  // namespace litespark::dist
