#include "engine/self_check.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/tensor/device.h"
#include "kernels/device/device_of.h"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {
namespace {

constexpr int64_t kRows = 16, kWidth = 128;

void require_all(const at::Tensor& values, double expected, const char* what) {
  const double apart = (values.to(at::kDouble) - expected).abs().max().item<double>();
  if (!(apart < 1e-3))
    throw Error(ErrorKind::environment,
                std::string(what) + " is wrong by " + std::to_string(apart));
}

// Checks the norm: each row is normalised to ones and multiplied by the weight, 3.
void check_norm(const at::Tensor& rows) {
  const at::Tensor weight = at::full({kWidth}, 3, rows.options()), y = at::empty_like(rows);
  synchronize(rows.device());
  ComputeDevice& device = device_of(rows.device());
  device.run(RmsNormForward{.rows = kRows,
                            .width = kWidth,
                            .x = rows.data_ptr(),
                            .x_stride = kWidth,
                            .weight = weight.data_ptr(),
                            .y = y.data_ptr(),
                            .y_stride = kWidth});
  device.synchronize(Stream::compute);
  require_all(y, 3, "a norm");
}

}  // namespace

static std::string in_one_line(const std::string& text) { return join(split(text, '\n'), "; "); }

std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
    return "ok";
  } catch (const c10::Error& error) {
    return in_one_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return in_one_line(error.what());
  }
}

void check_device(const std::string& name) {
  const at::Tensor twos =
      at::full({kRows, kWidth}, 2, at::TensorOptions().device(open_device(name)).dtype(at::kFloat));
  require_all(at::mm(twos, twos.t()), 4 * kWidth, "a product");
  check_norm(twos);
}

}  // namespace forge
