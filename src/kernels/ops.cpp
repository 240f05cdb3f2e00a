#include "kernels/ops.h"

#include "kernels/validate.h"

namespace flashbert {

void Ops::fill_zero(Tensor tensor) {
  const ArgumentCheck check("fill_zero");
  check.present("tensor", tensor);
  check.contiguous("tensor", tensor);
  if (tensor.elements() > 0) do_fill_zero(tensor);
}

}  // namespace flashbert
