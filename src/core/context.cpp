#include "core/context.h"

#include "core/error.h"

namespace flashbert {

Buffer::~Buffer() {
  if (data_ != nullptr) context_->release(data_, bytes_, kind_);
}

Tensor Buffer::tensor(Dtype dtype, const Shape& shape, std::int64_t offset) const {
  const std::int64_t needed = offset + shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  check<ShapeError>(offset >= 0 && needed <= bytes_, "{} {} at byte {} of a buffer of {} bytes", name_of(dtype), shape.text(), offset,
                    bytes_);
  return {static_cast<std::byte*>(data_) + offset, dtype, shape, shape.row_elements(), space_};
}

void Context::copy(Stream stream, Tensor to, ConstTensor from) {
  check<ShapeError>(bool(to) && bool(from), "copy: {} is absent", to ? "from" : "to");
  check<ShapeError>(to.contiguous() && from.contiguous(), "copy: {} has a row stride of {}; it must be contiguous",
                    to.contiguous() ? "from" : "to", to.contiguous() ? from.row_stride() : to.row_stride());
  check<DtypeError>(to.dtype() == from.dtype(), "copy: from is {}, to is {}", name_of(from.dtype()), name_of(to.dtype()));
  check<ShapeError>(to.elements() == from.elements(), "copy: from has shape {}, to has {}", from.shape().text(), to.shape().text());
  if (to.elements() > 0) do_copy(stream, to, from);
}

void Context::write(Tensor to, const void* from) {
  copy(Stream::kCompute, to, ConstTensor(from, to.dtype(), to.shape()));
  synchronize();
}

void Context::read(void* to, ConstTensor from) {
  copy(Stream::kCompute, Tensor(to, from.dtype(), from.shape()), from);
  synchronize();
}

Device parse_device(std::string_view name) {
  if (name == "cpu" || name == "auto") return Device::kCpu;
  if (name == "cuda") return Device::kCuda;
  throw ConfigError(fmt::format("device is '{}'; choose cpu, cuda or auto", name));
}

}  // namespace flashbert
