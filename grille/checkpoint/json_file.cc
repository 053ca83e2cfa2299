#include "grille/checkpoint/json_file.h"

#include <set>
#include <vector>

#include "grille/base/error.h"
#include "grille/checkpoint/mapped_file.h"
#include "grille/checkpoint/quote_name.h"

namespace grille::checkpoint {
namespace {

using nlohmann::json;

// The parser's callback: counts depth and remembers the keys of the objects that are open.
class Watch {
 public:
  Watch(const std::string& name, const JsonLimits& limits, const JsonMember& member)
      : name_(name), limits_(limits), member_(member) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        check(depth < limits_.depth, ErrorCode::kCorruptData, "{}: JSON is nested more than {} deep", name_,
              limits_.depth);
        if (event == Event::object_start) open_.push_back({});
        return true;
      case Event::key: {
        Object& object = open_.back();
        object.key = value.get<std::string>();
        if (!object.keys.insert(object.key).second) {
          fail(ErrorCode::kCorruptData, "{}: the key {} appears twice in one object", name_,
               quote_name(object.key));
        }
        return true;
      }
      case Event::object_end:
        open_.pop_back();
        if (!member_ || open_.empty()) return true;
        return member_(depth, open_.back().key, value);
      default: return true;
    }
  }

 private:
  struct Object {
    std::set<std::string> keys;
    std::string key;  // the last one
  };
  const std::string& name_;
  const JsonLimits& limits_;
  const JsonMember& member_;
  std::vector<Object> open_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits,
                const JsonMember& member) {
  check(text.size() <= limits.bytes, ErrorCode::kCorruptData, "{}: {} bytes of JSON, at most {} are read",
        name, text.size(), limits.bytes);
  try {
    Watch watch(name, limits, member);
    return json::parse(text, std::ref(watch));
  } catch (const json::parse_error& error) {
    fail(ErrorCode::kCorruptData, "{}: not valid JSON at byte {} of {}", name, error.byte, text.size());
  } catch (const json::out_of_range&) {
    fail(ErrorCode::kCorruptData, "{}: JSON holds a number that is out of range", name);
  }
}

json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string(), limits);
}

}  // namespace grille::checkpoint
