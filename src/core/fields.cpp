// SPDX-License-Identifier: Apache-2.0
#include "core/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/json_text.h"
#include "core/nearest.h"

namespace litespark {
namespace {

template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;  // clang 14 does not deduce aggregates by itself

std::string quote_where(std::string_view where, std::string_view path) {
  return std::string(where) + (where.empty() ? "" : ": ") + std::string(path);
}

std::string plain_number(double value) {
  std::array<char, 32> buffer{};
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

std::string range_text(const FieldRange& range) {
  const bool has_min = std::isfinite(range.min);
  const bool has_max = std::isfinite(range.max);
  const std::string min = plain_number(range.min);
  const std::string max = plain_number(range.max);
  if (has_min && has_max) {
    return (range.allows_zero ? "0 or " : "") + std::string(range.excludes_min ? "above " + min : min) + " to " +
           (range.excludes_max ? "below " + max : max);
  }
  if (has_min) return range.excludes_min ? "above " + min : min + " or more";
  if (has_max) return range.excludes_max ? "below " + max : max + " or less";
  return {};
}

bool is_in_range(const FieldRange& range, double value) {
  if (!std::isfinite(value)) return false;
  if (range.allows_zero && value == 0) return true;
  const bool above_min = range.excludes_min ? value > range.min : value >= range.min;
  const bool below_max = range.excludes_max ? value < range.max : value <= range.max;
  return above_min && below_max;
}

/// As a person writes it; JSON has no word for what is not finite.
std::string number_text(double value) {
  return std::isfinite(value) ? json_number(value) : plain_number(value);
}

std::string found_text(const ConfigValue& value) {
  const auto list = [](const auto& items, auto text_of) {
    std::string out = "[";
    for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + text_of(item);
    return out + "]";
  };
  return std::visit(
      Overloaded{[](bool v) { return std::string(v ? "true" : "false"); }, [](int64_t v) { return std::to_string(v); },
                 [](double v) { return number_text(v); }, [](const std::string& v) { return json_string(v); },
                 [&](const std::vector<double>& v) { return list(v, number_text); },
                 [&](const std::vector<std::string>& v) { return list(v, json_string); }},
      value);
}

/// Stores a checked value of the right type; every miss ends in the same error.
struct Assigner {
  const Field& field;
  const ConfigValue& value;
  std::string_view where;

  [[noreturn]] void fail(std::string_view what, std::string_view advice = {}) const {
    throw ConfigError(quote_where(where, field.path), what, found_text(value), expected_text(field), advice);
  }

  template <class T>
  const T& as() const {
    if (const T* held = std::get_if<T>(&value)) return *held;
    fail("wrong type");
  }

  int64_t integer() const {
    const int64_t number = as<int64_t>();
    if (!is_in_range(field.range, static_cast<double>(number))) fail("out of range");
    return number;
  }

  double number() const {
    const auto* whole = std::get_if<int64_t>(&value);
    const double number = whole != nullptr ? static_cast<double>(*whole) : as<double>();
    if (!is_in_range(field.range, number)) fail("out of range");
    return number;
  }

  size_t choice() const {
    const std::string& text = as<std::string>();
    const auto found = std::find(field.choices.begin(), field.choices.end(), text);
    if (found != field.choices.end()) return static_cast<size_t>(found - field.choices.begin());
    const std::vector<std::string> names(field.choices.begin(), field.choices.end());
    const std::string nearest = nearest_name(text, names);
    fail("unknown choice", nearest.empty() ? "" : "did you mean \"" + nearest + "\"?");
  }

  void operator()(bool* target) const { *target = as<bool>(); }
  void operator()(int64_t* target) const { *target = integer(); }
  void operator()(double* target) const { *target = number(); }
  void operator()(std::optional<bool>* target) const { *target = as<bool>(); }
  void operator()(std::optional<int64_t>* target) const { *target = integer(); }
  void operator()(std::optional<double>* target) const { *target = number(); }
  void operator()(Choice target) const { *target.index = static_cast<uint8_t>(choice()); }
  void operator()(std::string* target) const {
    if (!field.choices.empty()) choice();
    // Texts become paths and messages, and a system call would end them at the NUL.
    if (as<std::string>().find('\0') != std::string::npos) fail("holds a NUL character");
    *target = as<std::string>();
  }
  /// An empty list has no type of its own.
  std::vector<double> numbers() const {
    if (const auto* texts = std::get_if<std::vector<std::string>>(&value); texts != nullptr && texts->empty())
      return {};
    const auto& numbers = as<std::vector<double>>();
    for (const double item : numbers) {
      if (!is_in_range(field.range, item)) fail("out of range");
    }
    return numbers;
  }
  void operator()(std::vector<double>* target) const { *target = numbers(); }
  void operator()(std::vector<int64_t>* target) const {
    constexpr double kLargest = 0x1p53;  // beyond it not every integer is a double
    const std::vector<double> items = numbers();
    for (const double item : items) {
      if (item != std::trunc(item)) fail("wrong type");
      if (std::abs(item) > kLargest) fail("out of range");
    }
    target->assign(items.begin(), items.end());
  }
  void operator()(std::vector<std::string>* target) const {
    if (const auto* numbers = std::get_if<std::vector<double>>(&value); numbers != nullptr && numbers->empty()) {
      target->clear();
      return;
    }
    *target = as<std::vector<std::string>>();
  }
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    // 1e400 is a number, though none that fits: the range check says so. 1e-400 is 0, as in a file.
    if (status == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);
  }
  if (status != std::errc()) return std::nullopt;
  return number;
}

/// The most specific reading: integer, number, boolean, else the text itself.
ConfigValue scalar_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto whole = parse_whole<int64_t>(text)) return *whole;
  if (const auto number = parse_whole<double>(text)) return *number;
  return std::string(text);
}

std::vector<std::string> split_list(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = trimmed(text.substr(0, comma));
    if (item.size() >= 2 && item.front() == '"' && item.back() == '"') item = item.substr(1, item.size() - 2);
    items.emplace_back(item);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

ConfigValue numbers_of(std::string_view text) {
  std::vector<double> numbers;
  const std::vector<std::string> items = split_list(text);
  for (const std::string& item : items) {
    const auto number = parse_whole<double>(item);
    if (!number) return std::string(text);
    numbers.push_back(*number);
  }
  return numbers;
}

bool unset_optional(const FieldValue& value) {
  return std::visit(
      [](auto target) {
        if constexpr (requires { target->reset(); }) {
          target->reset();
          return true;
        }
        return false;
      },
      value);
}

}  // namespace

std::string_view Field::name() const {
  return std::string_view(path).substr(path.rfind('.') + 1);
}

std::string_view Field::section() const {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string_view{} : std::string_view(path).substr(0, dot);
}

void Fields::add(Field field) {
  field.path = prefix_ + field.path;
  fields_.push_back(std::move(field));
}

void Fields::open_section(std::string_view name, std::string_view help) {
  sections_.push_back({prefix_ + std::string(name), help});
  prefix_ += std::string(name) + ".";
}

const Field* Fields::find(std::string_view path) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.path == path; });
  return found == fields_.end() ? nullptr : &*found;
}

bool Fields::has_section(std::string_view path) const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const Section& s) { return s.path == path; });
}

void assign(const Field& field, const ConfigValue& value, std::string_view where) {
  std::visit(Assigner{field, value, where}, field.value);
}

void assign_text(const Field& field, std::string_view text, std::string_view where) {
  if (text == "none" && unset_optional(field.value)) return;
  const bool is_text = std::holds_alternative<std::string*>(field.value) || std::holds_alternative<Choice>(field.value);
  if (is_text) return assign(field, std::string(text), where);
  if (std::holds_alternative<std::vector<double>*>(field.value)) return assign(field, numbers_of(text), where);
  if (std::holds_alternative<std::vector<int64_t>*>(field.value)) return assign(field, numbers_of(text), where);
  if (std::holds_alternative<std::vector<std::string>*>(field.value)) return assign(field, split_list(text), where);
  assign(field, scalar_of(text), where);
}

void throw_unknown_key(const Fields& fields, std::string_view path, std::string_view where) {
  const size_t dot = path.rfind('.');
  const std::string section(dot == std::string_view::npos ? "" : path.substr(0, dot));
  const std::string name(path.substr(dot + 1));
  std::vector<std::string> siblings;
  std::vector<std::string> all;
  std::vector<std::string> namesakes;
  for (const Field& field : fields.list()) {
    all.push_back(field.path);
    if (field.section() == section) siblings.push_back(field.path);
    if (edit_distance(field.name(), name) == 0) namesakes.push_back(field.path);
  }
  for (const Section& part : fields.sections()) {
    all.push_back(part.path);
    if (part.path.rfind('.') == dot || (section.empty() && part.path.find('.') == std::string::npos)) {
      siblings.push_back(part.path);
    }
  }
  // The likeliest slip first: the right name elsewhere, then a typo in this section, then one anywhere.
  std::string nearest = nearest_name(path, namesakes);
  if (nearest.empty() && !namesakes.empty()) nearest = namesakes.front();
  if (nearest.empty()) nearest = nearest_name(path, siblings);
  if (nearest.empty()) nearest = nearest_name(path, all);
  const std::string expected = section.empty()               ? "a section or top-level key"
                               : fields.has_section(section) ? "a key of [" + section + "]"
                                                             : "a key that exists";
  throw ConfigError(where.empty() ? "configuration" : where, "unknown key", path, expected,
                    nearest.empty() ? "`litespark help config` lists every key" : "did you mean " + nearest + "?");
}

std::string value_text(const Field& field) {
  const auto optional = [](const auto& value, auto text_of) { return value ? text_of(*value) : std::string(); };
  const auto boolean = [](bool v) { return std::string(v ? "true" : "false"); };
  const auto whole = [](int64_t v) { return std::to_string(v); };
  const auto list = [](const auto& items, auto text_of) {
    std::string out = "[";
    for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + text_of(item);
    return out + "]";
  };
  return std::visit(
      Overloaded{[&](const bool* v) { return boolean(*v); }, [&](const int64_t* v) { return whole(*v); },
                 [](const double* v) { return json_number(*v); }, [](const std::string* v) { return json_string(*v); },
                 [&](const Choice& v) { return json_string(field.choices.at(*v.index)); },
                 [&](const std::vector<int64_t>* v) { return list(*v, whole); },
                 [&](const std::vector<double>* v) { return list(*v, json_number); },
                 [&](const std::vector<std::string>* v) { return list(*v, json_string); },
                 [&](const std::optional<bool>* v) { return optional(*v, boolean); },
                 [&](const std::optional<int64_t>* v) { return optional(*v, whole); },
                 [&](const std::optional<double>* v) { return optional(*v, json_number); }},
      field.value);
}

std::string expected_text(const Field& field) {
  if (!field.choices.empty()) {
    std::string out;
    for (const std::string_view choice : field.choices) out += (out.empty() ? "" : " | ") + std::string(choice);
    return (field.choices.size() > 1 ? "one of " : "") + out;
  }
  // No const here: an exact pointer type must win, so that a new type cannot pass as another.
  const std::string kind =
      std::visit(Overloaded{[](bool*) { return "true or false"; }, [](std::optional<bool>*) { return "true or false"; },
                            [](int64_t*) { return "integer"; }, [](std::optional<int64_t>*) { return "integer"; },
                            [](double*) { return "number"; }, [](std::optional<double>*) { return "number"; },
                            [](std::vector<int64_t>*) { return "list of integers"; },
                            [](std::vector<double>*) { return "list of numbers"; },
                            [](std::vector<std::string>*) { return "list of texts"; },
                            [](std::string*) { return "text"; }, [](Choice) { return "text"; }},
                 field.value);
  const std::string range = range_text(field.range);
  return range.empty() ? kind : kind + ", " + range;
}

}  // namespace litespark
