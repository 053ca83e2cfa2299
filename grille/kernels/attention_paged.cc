#include "grille/kernels/attention_paged.h"

#include <algorithm>
#include <vector>

#include "grille/base/error.h"
#include "grille/base/parallel.h"
#include "grille/kernels/cpu/attention_kernels.h"
#include "grille/kernels/cpu/row_kernels.h"
#include "grille/kernels/cpu/scratch.h"

namespace grille::kernels {
namespace {

constexpr std::int64_t kRowsPerTask = 96;  // query positions x heads of a group: amortises transposing keys
constexpr std::int64_t kFewRows = 8;       // at most: the context is cut into parts instead
constexpr std::int64_t kKeysPerPart = 512;
constexpr std::int64_t kWorkPerThread = 16 * 1024;  // key and value elements times rows, about 2 us

const AttentionKernels& kernels_here() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::kAvx512) return attention_kernels_avx512();
  if (active_isa() == Isa::kAvx2) return attention_kernels_avx2();
#endif
  return attention_kernels_scalar();
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

void check_cache(const formats::PagedKvView& kv) {
  check(is_float(kv.dtype), ErrorCode::kInvalidArgument, "attention: a cache of {}", dtype_name(kv.dtype));
  check(kv.num_kv_heads > 0 && kv.head_dim > 0 && kv.head_dim <= kMaxHeadDim, ErrorCode::kInvalidArgument,
        "attention: {} kv heads of {} (at most {})", kv.num_kv_heads, kv.head_dim, kMaxHeadDim);
}

void check_sequences(std::span<const formats::SequenceSpan> sequences, std::int64_t tokens,
                     const formats::PagedKvView& kv) {
  for (const formats::SequenceSpan& s : sequences) {
    check(s.start >= 0 && s.count >= 0 && s.first_row >= 0 && s.first_row + s.count <= tokens,
          ErrorCode::kInvalidArgument, "attention: positions {} + {} in rows from {}, of {} rows", s.start,
          s.count, s.first_row, tokens);
    const std::int64_t pages = (s.start + s.count + formats::kPageSize - 1) / formats::kPageSize;
    for (std::int64_t i = 0; i < pages; ++i) {
      check(s.pages[i] >= 0 && s.pages[i] < kv.num_pages, ErrorCode::kInvalidArgument,
            "attention: page {} of {} pages", s.pages[i], kv.num_pages);
    }
  }
}

// The work, with what each task costs (in keys times positions), and the tasks that come in parts.
struct TaskList {
  struct Parts {
    AttentionTask whole;
    std::int64_t first_task;
    std::int64_t count;
  };
  std::vector<AttentionTask> tasks;
  std::vector<std::int64_t> cost_before;  // of all tasks before this one; one entry more than tasks
  std::vector<Parts> parts;

  void clear() {
    tasks.clear();
    parts.clear();
    cost_before.assign(1, 0);
  }
  void add(const AttentionTask& task) {
    tasks.push_back(task);
    cost_before.push_back(cost_before.back() + task.positions * (task.key_end - task.key_begin));
  }
};

void add_sequence(TaskList& list, const formats::SequenceSpan& sequence, std::int64_t kv_head,
                  std::int64_t group) {
  const std::int64_t positions_per_task = std::max<std::int64_t>(1, kRowsPerTask / group);
  for (std::int64_t done = 0; done < sequence.count; done += positions_per_task) {
    AttentionTask task;
    task.sequence = &sequence;
    task.kv_head = kv_head;
    task.position = sequence.start + done;
    task.positions = std::min(positions_per_task, sequence.count - done);
    task.key_end = task.position + task.positions;
    if (task.positions * group > kFewRows || task.key_end <= kKeysPerPart) {
      list.add(task);
      continue;
    }
    const std::int64_t first = static_cast<std::int64_t>(list.tasks.size());
    const AttentionTask whole = task;
    for (std::int64_t key = 0; key < whole.key_end; key += kKeysPerPart) {
      task.key_begin = key;
      task.key_end = std::min(key + kKeysPerPart, whole.key_end);
      list.add(task);
    }
    list.parts.push_back({whole, first, static_cast<std::int64_t>(list.tasks.size()) - first});
  }
}

// Gives the tasks that are parts their memory.
void place_parts(TaskList& list, const AttentionJob& job, Scratch& scratch) {
  const auto floats = [&](const AttentionTask& t) { return t.positions * job.group * (job.kv.head_dim + 2); };
  std::int64_t total = 0;
  for (const TaskList::Parts& p : list.parts) total += p.count * floats(p.whole);
  float* memory = scratch.get_as<float>(static_cast<std::size_t>(total));
  for (const TaskList::Parts& p : list.parts) {
    for (std::int64_t i = 0; i < p.count; ++i, memory += floats(p.whole)) {
      list.tasks[static_cast<std::size_t>(p.first_task + i)].partial = memory;
    }
  }
}

}  // namespace

void store_kv(const ConstMatrixView& key, const ConstMatrixView& value,
              std::span<const formats::SequenceSpan> sequences, const formats::PagedKvView& kv) {
  check_cache(kv);
  const std::int64_t width = kv.num_kv_heads * kv.head_dim;
  for (const ConstMatrixView* x : {&key, &value}) {
    check(is_float(x->dtype) && x->cols == width && x->rows == key.rows, ErrorCode::kInvalidArgument,
          "store_kv: expected float [{}, {}], got {} [{}, {}]", key.rows, width, dtype_name(x->dtype),
          x->rows, x->cols);
  }
  check_sequences(sequences, key.rows, kv);
  const RowKernels& kernels = row_kernels();
  const auto size = static_cast<std::int64_t>(dtype_size(kv.dtype));
  const auto store = [&](const ConstMatrixView& x, void* pages, const formats::SequenceSpan& s,
                         std::int64_t i) {
    const std::int64_t position = s.start + i;
    const std::int64_t page = s.pages[position / formats::kPageSize];
    const std::byte* row = x.row(s.first_row + i);
    const std::int64_t head_bytes = kv.head_dim * static_cast<std::int64_t>(dtype_size(x.dtype));
    for (std::int64_t head = 0; head < kv.num_kv_heads; ++head) {
      const std::int64_t at = kv.offset(page, head, position % formats::kPageSize) * size;
      kernels.convert(x.dtype, row + head * head_bytes, kv.head_dim, kv.dtype,
                      static_cast<std::byte*>(pages) + at);
    }
  };
  for (const formats::SequenceSpan& s : sequences) {
    parallel_for(s.count, kWorkPerThread / width + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        store(key, kv.keys, s, i);
        store(value, kv.values, s, i);
      }
    });
  }
}

void attention_paged(const ConstMatrixView& query, std::span<const formats::SequenceSpan> sequences,
                     const formats::PagedKvView& kv, float scale, const MatrixView& out) {
  check_cache(kv);
  check(is_float(query.dtype) && is_float(out.dtype) && query.cols > 0 &&
            query.cols % (kv.num_kv_heads * kv.head_dim) == 0,
        ErrorCode::kInvalidArgument, "attention: a query of {} [{}, {}] for {} kv heads of {}",
        dtype_name(query.dtype), query.rows, query.cols, kv.num_kv_heads, kv.head_dim);
  check(out.rows == query.rows && out.cols == query.cols, ErrorCode::kInvalidArgument,
        "attention: query is [{}, {}], out [{}, {}]", query.rows, query.cols, out.rows, out.cols);
  check_sequences(sequences, query.rows, kv);

  const AttentionJob job = {query, out, kv, query.cols / (kv.num_kv_heads * kv.head_dim), scale};
  thread_local TaskList own_list;
  thread_local Scratch scratch;
  TaskList& list = own_list;  // the caller's, also inside the parallel loop
  list.clear();
  for (const formats::SequenceSpan& sequence : sequences) {
    for (std::int64_t head = 0; head < kv.num_kv_heads; ++head) add_sequence(list, sequence, head, job.group);
  }
  place_parts(list, job, scratch);

  const AttentionKernels& kernels = kernels_here();
  const std::int64_t total = list.cost_before.back();
  const std::int64_t work = total * job.group * kv.head_dim;
  const std::int64_t parts = std::clamp<std::int64_t>(work / kWorkPerThread, 1, num_threads());
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    // The tasks whose first unit of cost lies in this part.
    const auto task_at = [&](std::int64_t part) {
      const std::int64_t cost = total * part / parts;
      return std::lower_bound(list.cost_before.begin(), list.cost_before.end() - 1, cost) -
             list.cost_before.begin();
    };
    for (std::ptrdiff_t i = task_at(begin); i < task_at(end); ++i) {
      kernels.attend(job, list.tasks[static_cast<std::size_t>(i)]);
    }
  });
  for (const TaskList::Parts& p : list.parts) {
    const float* partials = list.tasks[static_cast<std::size_t>(p.first_task)].partial;
    kernels.combine(job, p.whole, partials, p.count, p.whole.positions * job.group * (kv.head_dim + 2));
  }
}

}  // namespace grille::kernels
