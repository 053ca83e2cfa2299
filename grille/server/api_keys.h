// Who may use the API.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace grille::server {

// Compares digests of keys, and every one of them in full, so that the time tells nothing about a key.
class ApiKeys {
 public:
  // No keys: everybody is let in. Throws Error{kInvalidArgument} for an empty key.
  explicit ApiKeys(const std::vector<std::string>& keys);
  bool required() const { return !digests_.empty(); }
  // `authorization`: the header's value, "Bearer KEY".
  bool allows(std::string_view authorization) const;

 private:
  std::vector<std::string> digests_;
};

}  // namespace grille::server
