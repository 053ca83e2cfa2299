// Included by one .cu file an element type, which instantiates launch_stream_24<type>.
#pragma once

#include "grille/kernels/cuda/device/stream_24.cuh"
#include "grille/kernels/cuda/stream_24_launch.h"

namespace grille::kernels {
namespace sm90 {

template <Sm90Type kType, int kTokens>
cudaError_t launch(const Stream24Launch& l) {
  const auto kernel = stream_24_kernel<StreamShape<kType, kTokens>>;
  cudaFuncAttributes attributes;
  cudaError_t status = cudaFuncGetAttributes(&attributes, kernel);
  if (status != cudaSuccess) return status;
  // Code for an older GPU, compiled again by the driver, would run and do nothing.
  if (attributes.ptxVersion < 90) return cudaErrorNoKernelImageForDevice;
  // Only ever raised: graphs that were captured with more are still to run.
  if (l.shared_bytes > attributes.maxDynamicSharedSizeBytes) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, l.shared_bytes);
    if (status != cudaSuccess) return status;
  }

  cudaLaunchAttribute extra[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(l.params.clusters * l.cluster));
  config.blockDim = dim3(kStreamThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(l.shared_bytes);
  config.stream = l.stream;
  config.attrs = extra;
  extra[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
  extra[config.numAttrs].val.clusterDim.x = static_cast<unsigned>(l.cluster);
  extra[config.numAttrs].val.clusterDim.y = 1;
  extra[config.numAttrs++].val.clusterDim.z = 1;
  if (l.overlap_previous) {
    extra[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    extra[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, l.x_map, l.params);
}

}  // namespace sm90

template <Sm90Type kType>
cudaError_t launch_stream_24(const Stream24Launch& l) {
  switch (l.token_tile) {
    case 8: return sm90::launch<kType, 8>(l);
    case 16: return sm90::launch<kType, 16>(l);
    case 32: return sm90::launch<kType, 32>(l);
    case 64: return sm90::launch<kType, 64>(l);
    case 128: return sm90::launch<kType, 128>(l);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace grille::kernels
