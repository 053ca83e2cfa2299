# cmake -DFILES="a;b" -DOUTPUT=web_files.cc -P embed_web_files.cmake: the files as one C++ source.
set(arrays "")
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  get_filename_component(extension ${file} EXT)
  if(extension STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(extension STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(extension STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  else()
    message(FATAL_ERROR "${file}: no content type is known for ${extension}")
  endif()
  string(MAKE_C_IDENTIFIER ${name} symbol)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(REGEX REPLACE "(('[^']*',){16})" "\\1\n    " bytes "${bytes}")
  string(APPEND arrays "constexpr char ${symbol}[] = {\n    ${bytes}\n};\n")
  string(APPEND entries "    WebFile{\"/${name}\", \"${type}\", {${symbol}, sizeof ${symbol}}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include <array>

#include \"grille/server/web_files.h\"

namespace grille::server {
namespace {
${arrays}
constexpr std::array kFiles = {
${entries}};
}  // namespace

const WebFile* find_web_file(std::string_view path) {
  for (const WebFile& file : kFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace grille::server
")
