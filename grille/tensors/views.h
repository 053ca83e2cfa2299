// The bridge from at::Tensor to the raw views that kernels take.
#pragma once

#include <ATen/core/Tensor.h>

#include "grille/base/dtype.h"
#include "grille/base/matrix_view.h"

namespace grille::tensors {

// Throws Error{kUnsupported} for a type that has no counterpart (complex, quantized, ...).
DType dtype_of(const at::Tensor& tensor);
DType dtype_from_torch(at::ScalarType type);
at::ScalarType torch_dtype(DType dtype);

// A CPU tensor of at least one dimension as a matrix: the last dimension is columns, all others are
// rows. No copy. Throws Error{kInvalidArgument} if the last dimension is not contiguous or the others
// cannot be viewed as one.
MatrixView matrix_view(const at::Tensor& tensor);

// A contiguous CPU tensor with its first dimension as rows, all others as columns: [tokens, heads, head_dim]
// as [tokens, heads * head_dim]. Throws Error{kInvalidArgument} if it is not contiguous.
MatrixView rows_view(const at::Tensor& tensor);

// The same of tensors on any device, for operations that are told the stream (tensors/device.h); rows may be
// further apart than their columns need.
MatrixView device_matrix_view(const at::Tensor& tensor);
MatrixView device_rows_view(const at::Tensor& tensor);

}  // namespace grille::tensors
