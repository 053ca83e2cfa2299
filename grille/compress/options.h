// What to do with a model: prune, quantize, convert. One pipeline serves all three.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "grille/base/dtype.h"
#include "grille/prune/pattern.h"

namespace grille::compress {

enum class Method { kMagnitude, kWanda, kRia, kSparseGpt, kAdmm, kAlps };
constexpr std::array<Method, 6> kMethods = {Method::kMagnitude, Method::kWanda, Method::kRia,
                                            Method::kSparseGpt, Method::kAdmm,  Method::kAlps};
// What prune::refine() does after the method has chosen a mask.
enum class Refine {
  kNone,
  kMask,     // exchanges weights; the kept ones are the source's
  kWeights,  // exchanges weights and solves for the kept ones
};
enum class Quantization {
  kNone,
  kFp8Dynamic,   // float8 weights with a scale a row; inputs are rounded too, with a scale a token
  kInt8Dynamic,  // the same with integers of 8 bits
  kInt4,         // integers of 4 bits with a scale for Options::group_size columns; inputs as they are
};
enum class EmbeddingQuantization { kNone, kFp8 };
enum class OutputFormat {
  kCompressed,  // 2:4 layers as values and bitmask
  kDense,       // every weight with its zeros, as other programs read it
  kMarlin24,    // 2:4 layers of 4-bit integers as marlin-24
};

std::string quantization_name(Quantization quantization);  // "none", "fp8-dynamic", ...
std::string output_format_name(OutputFormat format);       // "compressed", "dense", "marlin-24"
std::string method_name(Method method);                    // "magnitude", "wanda", "ria", ...
std::string refine_name(Refine refine);                    // "none", "mask", "weights"

// Training of every pruned block's kept weights, see reconstruct().
struct ReconstructOptions {
  std::int64_t epochs = 10;  // at most
  double rate = 2e-4;        // Adam's, of the first step
};

struct PruneOptions {
  prune::Pattern pattern;
  Method method = Method::kSparseGpt;
  Refine refine = Refine::kNone;
  std::optional<double> damping;  // share of the mean added to H's diagonal; empty: the method's own
  std::optional<ReconstructOptions> reconstruct;
  bool true_sequential = false;  // layers of a block see inputs that the block's pruned layers made
  // Which linear layers, in compressed-tensors' syntax: a class name ("Linear"), a full module name, or
  // "re:<regular expression>". The head and the embedding are never pruned.
  std::vector<std::string> targets = {"Linear"};
  std::vector<std::string> ignore = {"lm_head"};
};

// Whether pruning looks at inputs: all but magnitude alone do.
bool needs_calibration(const PruneOptions& options);
// The damping that pruning uses, or nothing where neither method nor refinement has one.
std::optional<double> damping_of(const PruneOptions& options);

struct Options {
  std::optional<PruneOptions> prune;
  Quantization quantize = Quantization::kNone;
  std::int64_t group_size = 128;  // of kInt4; 0: a scale a row
  EmbeddingQuantization quantize_embeddings = EmbeddingQuantization::kNone;
  OutputFormat format = OutputFormat::kCompressed;
  std::optional<DType> dtype;          // of stored unquantized tensors; empty: the source's
  std::optional<DType> compute_dtype;  // of calibration; empty: the source's
  std::uint64_t seed = 0;
  // For the provenance: the calibration files, and what was taken from them (0: nothing).
  std::string calibration_sha256;
  std::int64_t calibration_samples = 0;
  std::int64_t calibration_context = 0;
  bool resume = false;
  bool overwrite = false;
};

struct LayerReport {
  std::string name;
  double sparsity = 0.0;
  std::optional<double> relative_error = std::nullopt;  // needs calibration; before any reconstruction
  std::optional<double> damping = std::nullopt;         // where the method or refinement has one
  std::int64_t saturated = 0;                           // FP8 weights cut off at the largest value
  double seconds = 0.0;
  std::optional<std::int64_t> swaps = std::nullopt;  // that refinement made
};

// What reconstruct() did for a block: roots of the mean relative squared error of its outputs' tokens, on the
// held-out windows.
struct Reconstruction {
  double error_before = 0.0;
  double error = 0.0;
  std::int64_t epochs = 0;
};

struct Report {
  std::vector<LayerReport> layers;
  std::map<std::int64_t, Reconstruction> blocks;  // by index
  std::int64_t file_bytes_in = 0;
  std::int64_t file_bytes_out = 0;
};

// What a run will cost, before it starts.
struct Estimate {
  double seconds = 0.0;
  std::int64_t peak_host_bytes = 0;
  std::int64_t file_bytes_out = 0;
};

}  // namespace grille::compress
