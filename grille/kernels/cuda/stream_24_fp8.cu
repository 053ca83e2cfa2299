#include "grille/kernels/cuda/device/stream_24_launch.cuh"

namespace grille::kernels {

template cudaError_t launch_stream_24<Sm90Type::kFloat8E4M3>(const Stream24Launch& launch);

}  // namespace grille::kernels
