// SPDX-License-Identifier: Apache-2.0
// The model, the added tokens and the post-processor.
#include <utility>

#include "token/tokenizer_json.h"

namespace litespark::token {
namespace {

using Pieces = std::vector<TemplatePiece>;
using PieceKind = TemplatePiece::Kind;

Pieces read_template(const JsonValue& node, std::string_view member) {
  Pieces pieces;
  bool uses_first = false;
  const bool is_pair = member == "pair";
  node.at(member).for_each_element([&](const JsonValue& element) {
    if (const auto sequence = element.find("Sequence")) {
      const std::string_view id = sequence->at("id").string();
      if (id != "A" && !(id == "B" && is_pair)) {
        throw DataError(sequence->path(), "names no sequence", id, is_pair ? "A or B" : "A");
      }
      uses_first = uses_first || id == "A";
      pieces.push_back({id == "A" ? PieceKind::kFirst : PieceKind::kSecond, {}});
      return;
    }
    const std::string_view name = element.at("SpecialToken").at("id").string();
    TemplatePiece piece{PieceKind::kSpecial, {}};
    node.at("special_tokens").at(name).at("ids").for_each_element([&](const JsonValue& id) {
      piece.ids.push_back(id.id());
    });
    pieces.push_back(std::move(piece));
  });
  if (!uses_first) throw DataError(node.path(), "does not use the text", std::string(member), "a template with $A");
  return pieces;
}

TemplatePiece read_token_pair(const JsonValue& node) {
  TemplatePiece piece{PieceKind::kSpecial, {}};
  node.for_each_element([&](const JsonValue& element) {
    if (!element.is_string()) piece.ids.push_back(element.id());
  });
  return piece;
}

TemplateSpec read_cls_sep(const JsonValue& node, bool doubles_separator) {
  const TemplatePiece cls = read_token_pair(node.at("cls"));
  const TemplatePiece sep = read_token_pair(node.at("sep"));
  const TemplatePiece first{PieceKind::kFirst, {}};
  const TemplatePiece second{PieceKind::kSecond, {}};
  TemplateSpec spec{{cls, first, sep}, {cls, first, sep}};
  if (doubles_separator) spec.pair.push_back(sep);
  spec.pair.push_back(second);
  spec.pair.push_back(sep);
  return spec;
}

std::pair<std::string, std::string> read_merge_pair(const JsonValue& node) {
  std::vector<std::string_view> parts;
  node.for_each_element([&](const JsonValue& part) { parts.push_back(part.string()); });
  if (parts.size() != 2) throw DataError(node.path(), "is no pair", parts.size(), "two tokens");
  return {std::string(parts[0]), std::string(parts[1])};
}

std::pair<std::string, std::string> read_merge_line(const JsonValue& node) {
  const std::string_view line = node.string();
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw DataError(node.path(), "is no pair", fmt::format("\"{}\"", line), "two tokens and one space");
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

void refuse_affix(const JsonValue& node, std::string_view key) {
  if (node.string_or(key, "").empty()) return;
  throw DataError(node.path() + "." + std::string(key), "is not supported", node.at(key).string(), "null or empty");
}

}  // namespace

TemplateSpec read_post_processor(const JsonValue& node) {
  const std::string_view type = node.at("type").string();
  if (type == "ByteLevel") return {};  // it only trims offsets
  if (type == "TemplateProcessing") return {read_template(node, "single"), read_template(node, "pair")};
  if (type == "BertProcessing") return read_cls_sep(node, false);
  if (type == "RobertaProcessing") return read_cls_sep(node, true);
  if (type != "Sequence") {
    throw DataError(node.path(), "has a type that is not supported", fmt::format("\"{}\"", type),
                    "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing or Sequence");
  }
  std::optional<TemplateSpec> found;
  node.at("processors").for_each_element([&](const JsonValue& child) {
    const std::string_view child_type = child.at("type").string();
    if (child_type == "ByteLevel") return;
    if (found || child_type == "Sequence") {
      throw DataError(child.path(), "is one template too many", child_type, "one component that adds tokens");
    }
    found = read_post_processor(child);
  });
  return found.value_or(TemplateSpec{});
}

BpeSpec read_model(const JsonValue& node) {
  const std::string type = node.string_or("type", "BPE");
  if (type != "BPE") {
    throw DataError(node.path(), "has a type that is not supported", fmt::format("\"{}\"", type), "BPE");
  }
  if (const auto dropout = node.find("dropout"); dropout && dropout->get<double>("a number") != 0.0) {
    throw DataError(dropout->path(), "is not supported", dropout->get<double>("a number"), "null or 0");
  }
  refuse_affix(node, "continuing_subword_prefix");
  refuse_affix(node, "end_of_word_suffix");
  BpeSpec spec;
  if (const auto unknown = node.find("unk_token")) spec.unk_token = std::string(unknown->string());
  spec.fuse_unk = node.boolean_or("fuse_unk", false);
  spec.byte_fallback = node.boolean_or("byte_fallback", false);
  spec.ignore_merges = node.boolean_or("ignore_merges", false);
  node.at("vocab").for_each_member(
      [&](std::string_view text, const JsonValue& id) { spec.vocab.emplace_back(text, id.id()); });
  node.at("merges").for_each_element([&](const JsonValue& merge) {
    if (!merge.is_string()) {
      spec.merges.push_back(read_merge_pair(merge));
    } else if (!merge.string().starts_with("#version")) {
      spec.merges.push_back(read_merge_line(merge));
    }
  });
  if (spec.vocab.empty()) throw DataError(node.path() + ".vocab", "is empty", 0, "at least one token");
  return spec;
}

std::vector<AddedTokenSpec> read_added_tokens(const JsonValue& node) {
  std::vector<AddedTokenSpec> tokens;
  node.for_each_element([&](const JsonValue& element) {
    AddedTokenSpec token;
    token.id = element.at("id").id();
    token.content = element.at("content").string();
    token.single_word = element.at("single_word").boolean();
    token.lstrip = element.at("lstrip").boolean();
    token.rstrip = element.at("rstrip").boolean();
    token.normalized = element.at("normalized").boolean();
    token.special = element.at("special").boolean();
    tokens.push_back(std::move(token));
  });
  return tokens;
}

}  // namespace litespark::token
