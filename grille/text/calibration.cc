#include "grille/text/calibration.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "grille/base/error.h"
#include "grille/text/document_encoder.h"
#include "grille/text/sha256.h"
#include "grille/text/text_files.h"

namespace grille::text {

namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;
using Windows = std::vector<CalibrationWindow>;

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers with every compiler, unlike
// std::uniform_int_distribution.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, bound), bound >= 1; the bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  std::uint64_t state_;
};

void add_whole_window(const Ids& ids, std::int64_t begin, std::int64_t context, Windows& windows) {
  const auto first = ids.begin() + begin;
  windows.push_back({Ids(first, first + context), {context}});
}

void add_token_windows(const Tokenizer& tokenizer, const fs::path& file, std::int64_t samples,
                       std::int64_t context, Windows& windows) {
  const Ids ids = read_token_file(file);
  const auto have = static_cast<std::int64_t>(ids.size());
  check(have / context >= samples, ErrorCode::kInvalidArgument,
        "{}: {} tokens make {} windows of {}, {} are needed: give more data, or a smaller --samples or "
        "--context",
        file.string(), have, have / context, context, samples);
  const auto too_large =
      std::find_if(ids.begin(), ids.end(), [&](auto id) { return id >= tokenizer.end_id(); });
  check(too_large == ids.end(), ErrorCode::kInvalidArgument,
        "{}: token {} is {}, but this model's tokenizer ends at {}: the file is for another model",
        file.string(), too_large - ids.begin(), too_large == ids.end() ? 0 : *too_large,
        tokenizer.end_id() - 1);
  for (std::int64_t i = 0; i < samples; ++i) add_whole_window(ids, i * context, context, windows);
}

void add_text_windows(const Tokenizer& tokenizer, const fs::path& file, std::int64_t samples,
                      std::int64_t context, Random& random, Windows& windows) {
  const Ids ids = tokenizer.encode(read_text_file(file));
  const auto have = static_cast<std::int64_t>(ids.size());
  // Windows may overlap, but data that holds fewer distinct tokens than one window is none.
  check(have >= context, ErrorCode::kInvalidArgument,
        "{}: {} tokens are fewer than one window of {}: give more text, or a smaller --context",
        file.string(), have, context);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto begin =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(have - context + 1)));
    add_whole_window(ids, begin, context, windows);
  }
}

// Documents in the file's order fill a window while they fit; one that does not opens the next.
void add_document_windows(const Tokenizer& tokenizer, const fs::path& file, std::int64_t samples,
                          std::int64_t context, Windows& windows) {
  const std::vector<Document> documents = read_documents(file);
  DocumentEncoder encoder(tokenizer, context);
  const std::size_t wanted = windows.size() + static_cast<std::size_t>(samples);
  CalibrationWindow window;
  std::int64_t tokens = 0;
  for (const Document& document : documents) {
    const Ids ids = encoder.encode(document, file);
    if (ids.empty()) continue;
    tokens += static_cast<std::int64_t>(ids.size());
    if (static_cast<std::int64_t>(window.ids.size() + ids.size()) > context) {
      windows.push_back(std::exchange(window, {}));
      if (windows.size() == wanted) return;
    }
    window.ids.insert(window.ids.end(), ids.begin(), ids.end());
    window.segment_lengths.push_back(static_cast<std::int64_t>(ids.size()));
  }
  if (!window.ids.empty()) windows.push_back(std::move(window));
  check(windows.size() >= wanted, ErrorCode::kInvalidArgument,
        "{}: {} documents with {} tokens fill {} windows of {}, {} are needed: give more data, or a smaller "
        "--samples or --context",
        file.string(), documents.size(), tokens, samples - static_cast<std::int64_t>(wanted - windows.size()),
        context, samples);
}

std::string digest(const std::vector<fs::path>& files) {
  if (files.size() == 1) return sha256_of_file(files.front());
  Sha256 all;
  for (const fs::path& file : files) all.update(sha256_of_file(file));
  return all.finish();
}

}  // namespace

CalibrationData read_calibration(const Tokenizer& tokenizer, const CalibrationOptions& options) {
  check(!options.files.empty(), ErrorCode::kInvalidArgument, "calibration: no file is given");
  check(options.samples >= 1, ErrorCode::kInvalidArgument, "calibration: samples is {}", options.samples);
  check(options.context >= 1, ErrorCode::kInvalidArgument, "calibration: context is {}", options.context);
  CalibrationData data;
  Random random(options.seed);
  const auto count = static_cast<std::int64_t>(options.files.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const fs::path& file = options.files[static_cast<std::size_t>(i)];
    const std::int64_t share = options.samples / count + (i < options.samples % count ? 1 : 0);
    if (share == 0) continue;
    if (is_token_file(file)) {
      add_token_windows(tokenizer, file, share, options.context, data.windows);
    } else if (file.extension() == ".jsonl") {
      add_document_windows(tokenizer, file, share, options.context, data.windows);
    } else {
      add_text_windows(tokenizer, file, share, options.context, random, data.windows);
    }
  }
  for (const CalibrationWindow& window : data.windows)
    data.tokens += static_cast<std::int64_t>(window.ids.size());
  data.sha256 = digest(options.files);
  return data;
}

}  // namespace grille::text
