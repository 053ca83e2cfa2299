// Hopper's copy engine: bulk copies and tensor-map copies between global and shared memory.
#pragma once

#include <cstdint>

namespace grille::kernels {

// `bytes` (a multiple of 16) from global to shared memory; completes on `barrier`.
__device__ __forceinline__ void copy_bulk(std::uint32_t target, const void* source, int bytes,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// A box of a tensor map, written at the same place of every block in `block_mask` of the cluster, completing
// on the same barrier in each.
__device__ __forceinline__ void copy_box_to_blocks(std::uint32_t target, const void* tensor_map, int column,
                                                   int row, std::uint32_t barrier, std::uint16_t block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(tensor_map), "r"(column), "r"(row), "r"(barrier), "h"(block_mask)
      : "memory");
}

// A box from shared memory to the tensor; what lies outside the tensor is not written.
__device__ __forceinline__ void store_box(const void* tensor_map, int column, int row, std::uint32_t source) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(tensor_map),
               "r"(column), "r"(row), "r"(source)
               : "memory");
}

__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `kPending` of this thread's committed groups still read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Orders this thread's ordinary writes to shared memory before later reads by the copy engine.
__device__ __forceinline__ void fence_before_bulk_read() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void prefetch_tensor_map(const void* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(tensor_map) : "memory");
}

// One float from global to shared memory, not waited for; 0 where `valid` is false.
__device__ __forceinline__ void copy_float(std::uint32_t target, const float* source, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(source), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void wait_copied_floats() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace grille::kernels
