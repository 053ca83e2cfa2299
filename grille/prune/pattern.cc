#include "grille/prune/pattern.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "grille/base/error.h"

namespace grille::prune {
namespace {

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Pattern::name() const {
  return kind == Kind::kGroups ? fmt::format("{}:{}", keep, group) : std::string("unstructured");
}

Pattern parse_pattern(const std::string& text, std::optional<double> sparsity) {
  check(!sparsity || (*sparsity > 0.0 && *sparsity < 1.0), ErrorCode::kInvalidArgument,
        "--sparsity {}: expected a number between 0 and 1 (the share of zeros)", sparsity.value_or(0));
  Pattern pattern;
  if (text == "unstructured") {
    pattern.kind = Pattern::Kind::kUnstructured;
    pattern.sparsity = sparsity.value_or(0.5);
    return pattern;
  }
  const std::size_t colon = text.find(':');
  const auto keep =
      colon == std::string::npos ? std::nullopt : parse_count(std::string_view(text).substr(0, colon));
  const auto group =
      colon == std::string::npos ? std::nullopt : parse_count(std::string_view(text).substr(colon + 1));
  check(
      keep && group && *keep >= 1 && *keep < *group && *group <= 32, ErrorCode::kInvalidArgument,
      "--pattern {}: expected N:M (keep N of every M columns, 1 <= N < M <= 32, e.g. 2:4) or 'unstructured'",
      text);
  pattern.keep = *keep;
  pattern.group = *group;
  pattern.sparsity = 1.0 - static_cast<double>(*keep) / static_cast<double>(*group);
  check(!sparsity || std::abs(*sparsity - pattern.sparsity) < 1e-9, ErrorCode::kInvalidArgument,
        "--sparsity {} contradicts --pattern {}, which is {:.4g}; leave --sparsity out", sparsity.value_or(0),
        text, pattern.sparsity);
  return pattern;
}

}  // namespace grille::prune
