#include "grille/server/api_keys.h"

#include <algorithm>
#include <cctype>

#include "grille/base/error.h"
#include "grille/text/sha256.h"

namespace grille::server {
namespace {

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;  // digests all have the same length
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    check(!key.empty(), ErrorCode::kInvalidArgument, "--api-key: a key is empty");
    digests_.push_back(text::sha256_hex(key));
  }
}

bool ApiKeys::allows(std::string_view authorization) const {
  if (!required()) return true;
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return false;
  std::string scheme(authorization.substr(0, space));
  std::transform(scheme.begin(), scheme.end(), scheme.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (scheme != "bearer") return false;
  const std::string digest = text::sha256_hex(authorization.substr(space + 1));
  bool found = false;
  for (const std::string& known : digests_) found |= equal_in_constant_time(digest, known);
  return found;
}

}  // namespace grille::server
