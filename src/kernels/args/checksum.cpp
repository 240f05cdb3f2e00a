#include "kernels/args/checksum.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::checksum(const Checksum& args) {
  const ArgumentCheck check("checksum");
  check.dense("sum", args.sum, Dtype::kU64, {1});
  for (const ConstTensor& tensor : args.tensors) {
    check.present("tensors", tensor);
    check.dense("tensors", tensor, Dtype::kF32, tensor.shape());
  }
  do_checksum(args);
}

}  // namespace flashbert
