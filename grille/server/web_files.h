// The files of web/, which the build puts into the library.
#pragma once

#include <string_view>

namespace grille::server {

struct WebFile {
  std::string_view path;  // "/index.html"
  std::string_view content_type;
  std::string_view content;
};

// nullptr: there is none.
const WebFile* find_web_file(std::string_view path);

}  // namespace grille::server
