#include "kernels/args/step_record.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::add_quotients(const AddQuotients& args) {
  const ArgumentCheck check("add_quotients");
  check.present("sum", args.sum);
  check.rank("sum", args.sum, 1);
  check.dense("sum", args.sum, Dtype::kF64, args.sum.shape());
  check.dense("value", args.value, Dtype::kF64, args.sum.shape());
  check.dense("divisor", args.divisor, Dtype::kF64, args.sum.shape());
  check.apart("sum", args.sum, "value", args.value);
  check.apart("sum", args.sum, "divisor", args.divisor);
  do_add_quotients(args);
}

void Ops::hold_update(const HoldUpdate& args) {
  const ArgumentCheck check("hold_update");
  check.dense("held", args.held, Dtype::kI32, {1});
  check.dense("first_bad", args.first_bad, Dtype::kI32, {1});
  for (const auto& [name, values] : {std::pair{"finite", args.finite}, std::pair{"zero", args.zero}}) {
    check.present(name, values);
    check.rank(name, values, 1);
    check.dense(name, values, Dtype::kF64, values.shape());
  }
  do_hold_update(args);
}

}  // namespace flashbert
