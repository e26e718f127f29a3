// SPDX-License-Identifier: Apache-2.0
// The trace of one step: spans of the same name that follow each other become one event of their track.
#include <array>

#include "core/json_text.h"
#include "meter/timeline.h"

namespace litespark {
namespace {

struct Track {
  const char* name;
  std::string (*label)(const TimeSpan& span);  ///< "": nothing is drawn
  bool joins_equal;                            ///< neighbours with one label are one event
  bool joins_layers;                           ///< of different layers too
};

std::string kind_label(const TimeSpan& span) {
  return std::string(scope_kind(span.scope));
}
std::string scope_label(const TimeSpan& span) {
  return span.scope;
}
std::string op_label(const TimeSpan& span) {
  return span.op;
}

constexpr std::array<Track, 3> kTracks = {
    {{"phases", kind_label, true, true}, {"scopes", scope_label, true, false}, {"ops", op_label, false, false}}};

std::string thread_fields(size_t track) {
  return "\"pid\": 1, \"tid\": " + std::to_string(track + 1);
}

std::string event(const Track& track, size_t number, const TimeSpan& first, double end_seconds) {
  const std::string layer = first.layer < 0 ? "" : ", \"layer\": " + std::to_string(first.layer);
  return "{\"name\": " + json_string(track.label(first)) + ", \"cat\": " + json_string(first.scope) +
         ", \"ph\": \"X\", " + thread_fields(number) + ", \"ts\": " + json_number(1e6 * first.begin_seconds) +
         ", \"dur\": " + json_number(1e6 * (end_seconds - first.begin_seconds)) +
         ", \"args\": {\"scope\": " + json_string(first.scope) + layer + "}}";
}

}  // namespace

std::string chrome_trace_json(const SampledStep& step) {
  std::string events = "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"step " +
                       std::to_string(step.step) + "\"}}";
  for (size_t number = 0; number < kTracks.size(); ++number) {
    const Track& track = kTracks[number];
    events += ",\n{\"name\": \"thread_name\", \"ph\": \"M\", " + thread_fields(number) +
              ", \"args\": {\"name\": " + json_string(track.name) + "}}";
    for (size_t first = 0; first < step.spans.size();) {
      size_t last = first;
      const auto continues = [&](size_t next) {
        return next < step.spans.size() && (track.joins_layers || step.spans[next].layer == step.spans[first].layer) &&
               track.label(step.spans[next]) == track.label(step.spans[first]);
      };
      while (track.joins_equal && continues(last + 1)) ++last;
      if (!track.label(step.spans[first]).empty()) {
        events += ",\n" + event(track, number, step.spans[first], step.spans[last].end_seconds);
      }
      first = last + 1;
    }
  }
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + events + "\n]}\n";
}

}  // namespace litespark
