// SPDX-License-Identifier: Apache-2.0
// Settings listed once. A config struct holds its defaults and one member `void visit(Fields&)` that names every field
// with help, unit and range; reading, overriding, writing, help and the checked-in key list all walk that one list.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace litespark {

/// An enumeration stored in a byte, seen as the index into Field::choices.
struct Choice {
  template <class Enum>
  Choice(Enum* value) : index(reinterpret_cast<uint8_t*>(value)) {  // NOLINT: implicit on purpose, byte may alias
    static_assert(std::is_enum_v<Enum> && std::is_same_v<std::underlying_type_t<Enum>, uint8_t>);
  }
  uint8_t* index;
};

/// Where a field's value lives. Optionals are left out of files while they are unset.
using FieldValue =
    std::variant<bool*, int64_t*, double*, std::string*, Choice, std::vector<int64_t>*, std::vector<double>*,
                 std::vector<std::string>*, std::optional<bool>*, std::optional<int64_t>*, std::optional<double>*>;

/// Bounds of a number, or of each number in a list.
struct FieldRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool excludes_min = false;
  bool excludes_max = false;
  bool allows_zero = false;  ///< where 0 stands for "none" or "not known"
};
constexpr FieldRange at_least(double min) {
  return {.min = min};
}
constexpr FieldRange above(double min) {
  return {.min = min, .excludes_min = true};
}
constexpr FieldRange between(double min, double max) {
  return {.min = min, .max = max};
}
/// 0 or min <= value <= max.
constexpr FieldRange zero_or_between(double min, double max) {
  return {.min = min, .max = max, .allows_zero = true};
}
/// min <= value < max.
constexpr FieldRange from_to_below(double min, double max) {
  return {.min = min, .max = max, .excludes_max = true};
}

struct Field {
  std::string path;  ///< given as the bare name; Fields::add puts the sections in front: "train.steps"
  FieldValue value;
  std::string_view help;
  std::string_view unit = {};
  FieldRange range = {};
  std::vector<std::string_view> choices =
      {};  ///< of Choice (in enumerator order) and of strings that are not free text

  std::string_view name() const;     ///< "steps"
  std::string_view section() const;  ///< "train"; "" at the top level
};

struct Section {
  std::string path;
  std::string_view help;
};

/// The flat list of an object's fields. Points into the object: use it while that lives and does not move.
class Fields {
 public:
  template <class Object>
  static Fields of(Object& object) {
    Fields fields;
    object.visit(fields);
    return fields;
  }

  void add(Field field);
  template <class Object>
  void section(std::string_view name, std::string_view help, Object& object) {
    const std::string outer = prefix_;
    open_section(name, help);
    object.visit(*this);
    prefix_ = outer;
  }

  const std::vector<Field>& list() const { return fields_; }
  const std::vector<Section>& sections() const { return sections_; }
  /// nullptr when there is no such field.
  const Field* find(std::string_view path) const;
  bool has_section(std::string_view path) const;

 private:
  void open_section(std::string_view name, std::string_view help);

  std::string prefix_;
  std::vector<Field> fields_;
  std::vector<Section> sections_;
};

/// A value as a file states it, before it meets its field.
using ConfigValue = std::variant<bool, int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;

/// Stores `value`; `where` ("run.toml line 3", "command line") opens the error. Whole numbers enter decimal fields,
/// never the reverse, but for lists, where 2.0 is 2. Throws ConfigError on a wrong type, an unknown choice, a number
/// out of range or not finite.
void assign(const Field& field, const ConfigValue& value, std::string_view where);

/// The same from the text of `--section.key=value`: lists as "0.9,0.95" or "[0.9, 0.95]", "none" unsets an optional.
void assign_text(const Field& field, std::string_view text, std::string_view where);

/// Throws ConfigError for a path that is no field: full path, and the nearest one ("did you mean train.steps?") by
/// spelling, by hyphen against underscore, or by the right name in the wrong section.
[[noreturn]] void throw_unknown_key(const Fields& fields, std::string_view path, std::string_view where);

/// The value in TOML's spelling, which for numbers, lists and strings is JSON's too; "" for an unset optional.
std::string value_text(const Field& field);
/// "integer", "number", "true or false", "text", "one of a | b", "list of integers", "list of numbers", "list of
/// texts", with the range.
std::string expected_text(const Field& field);

/// All set fields as a TOML document, in listed order. Reads back as the same values.
std::string to_toml(const Fields& fields);
/// The same as one JSON object with nested sections; unset optionals are null.
std::string to_json(const Fields& fields);
/// One line a field: path, expected value, default. `fields` must hold the defaults.
std::string key_list(const Fields& fields);
/// The lines of `--help` for the fields of one section ("" = top level): name, range, unit, default, purpose.
std::string help_text(const Fields& fields, std::string_view section);

}  // namespace litespark
