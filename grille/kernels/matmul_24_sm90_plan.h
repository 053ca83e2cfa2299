// Which Hopper kernel a 2:4 matmul runs in, and how it is cut: a pure function of the problem and the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "grille/base/dtype.h"
#include "grille/kernels/cuda/stream_24_layout.h"

namespace grille::kernels {

class Matmul24PlanTable;

struct Matmul24Sm90Problem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = DType::kBFloat16;  // of x and the weight
  // Whether x and all its rows begin at multiples of 16 bytes. If not, x is copied to the workspace first.
  bool x_aligned = true;
  bool swiglu = false;             // the large kernels alone have it
  bool fast_accumulation = false;  // float8
};

// The defaults are an H200's (and an H100 SXM's).
struct Sm90Caps {
  int multiprocessors = 132;
  int shared_memory_per_block = 232448;           // bytes that one block may ask for
  int shared_memory_per_multiprocessor = 233472;  // of which every block takes 1 KiB more than it asks for

  // Bytes that each of two blocks on a multiprocessor may ask for.
  int shared_memory_of_two() const {
    return std::min(shared_memory_per_block, shared_memory_per_multiprocessor / 2 - 1024);
  }
};

enum class Matmul24Kernel : std::uint8_t {
  kStream,  // small batches: the weight streams through all multiprocessors, cut evenly by bytes
  kLarge,   // large batches: output tiles
};

struct Matmul24Sm90Plan {
  Matmul24Kernel kernel = Matmul24Kernel::kStream;
  int row_tile = 128;  // weight rows of a block's tile
  int token_tile = 8;  // tokens of a block's tile; kStream: 8, 16, 32, 64 or 128
  int stages = 4;      // slabs in flight a block; kLarge: the kernel's own
  int cluster = 1;  // blocks of a cluster. kStream: they split k and add up through shared memory; kLarge: 2,
                    // which share tokens
  int group_rows = 1;  // kStream: row blocks that a cluster works on at a time, 1, 2 or 4, which share x
  int clusters = 1;    // kStream: each takes an equal share of the slabs, in order; kLarge: of the tiles
  bool resident_x =
      false;  // kStream: a block keeps its part of x in shared memory; clusters take whole row blocks
  bool promote = false;  // float8: add the tensor cores' sums up in fp32 every few k-tiles
  bool split = false;    // kLarge: tiles that would be a last, partial wave share their k among all clusters

  std::int64_t blocks() const { return static_cast<std::int64_t>(cluster) * clusters; }
  bool operator==(const Matmul24Sm90Plan&) const = default;
};

// What `measured` holds for the problem, else what the rule says. Null: the built-in table.
// Throws Error{kInvalidArgument} if no shared memory of this size can hold the smallest pipeline.
Matmul24Sm90Plan plan_matmul_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                                     const Matmul24PlanTable* measured = nullptr);

// The smallest tile of the streaming kernel that holds m tokens, m <= 128.
int stream_token_tile(std::int64_t m);

// The rule leaves more tokens than this to the large kernel, which is as fast or faster on an H200 (o of
// Llama 3 8B, float8, 128 tokens: 8.9 us, not 13.2).
constexpr int kMost24StreamTokens = 64;

// The rule: a plan from the problem's sizes alone. Throws as above.
Matmul24Sm90Plan rule_plan_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps);

// Why no kernel can run the plan, in one line; empty if one can.
std::string refusal_of_plan_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                                    const Matmul24Sm90Plan& plan);

// Whether a plan found by measuring may take the place of the rule's: it can run, takes all tokens at once
// and sums as the rule's plans do (Matmul24Sm90Plan::promote).
bool may_replace_rule_24_sm90(const Matmul24Sm90Problem& problem, const Sm90Caps& caps,
                              const Matmul24Sm90Plan& plan);

// "stream 128 rows x 16 tokens, 6 stages, 33 clusters of 4", "stream 128 rows x 128 tokens, 4 stages, 16
// clusters of 8, x for 2 row blocks"
std::string to_string(const Matmul24Sm90Plan& plan);

// kStream: k-tiles of x that a block has room for, and bytes of shared memory of a block, for a weight of
// `k_tiles` k-tiles.
int stream_x_slots(const Matmul24Sm90Plan& plan, std::int64_t k_tiles);
int stream_shared_bytes(const Matmul24Sm90Plan& plan, std::int64_t k_tiles, int element_bytes);
Stream24Memory stream_memory(const Matmul24Sm90Plan& plan, std::int64_t k_tiles, int element_bytes);

// kStream: the blocks of a cluster that split k, and what clusters take of a weight of `row_blocks` row
// blocks: groups of plan.group_rows.
inline int stream_splits(const Matmul24Sm90Plan& plan) { return plan.cluster / plan.group_rows; }
std::int64_t stream_row_groups(const Matmul24Sm90Plan& plan, std::int64_t row_blocks);

}  // namespace grille::kernels
