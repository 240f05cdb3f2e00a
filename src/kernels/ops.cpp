#include "kernels/ops.h"

#include "kernels/validate.h"

namespace flashbert {

void Ops::upload(Tensor to, const void* from) {
  const ArgumentCheck check("upload");
  check.present("to", to);
  check.contiguous("to", to);
  if (to.elements() > 0) do_upload(to, from);
}

void Ops::download(void* to, ConstTensor from) {
  const ArgumentCheck check("download");
  check.present("from", from);
  check.contiguous("from", from);
  if (from.elements() > 0) do_download(to, from);
}

void Ops::fill_zero(Tensor tensor) {
  const ArgumentCheck check("fill_zero");
  check.present("tensor", tensor);
  check.contiguous("tensor", tensor);
  if (tensor.elements() > 0) do_fill_zero(tensor);
}

}  // namespace flashbert
