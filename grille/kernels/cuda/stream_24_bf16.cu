#include "grille/kernels/cuda/device/stream_24_launch.cuh"

namespace grille::kernels {

template cudaError_t launch_stream_24<Sm90Type::kBFloat16>(const Stream24Launch& launch);

}  // namespace grille::kernels
