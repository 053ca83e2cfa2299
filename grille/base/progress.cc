#include "grille/base/progress.h"

namespace grille {
namespace {
class NoProgress final : public Progress {
 public:
  void start(std::string_view, std::int64_t, std::string_view) override {}
  void update(std::int64_t, std::string_view) override {}
  void finish() override {}
};
}  // namespace

Progress& no_progress() {
  static NoProgress progress;
  return progress;
}

}  // namespace grille
