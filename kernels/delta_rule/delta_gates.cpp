// The gates of the delta rule on a CPU: a few numbers a token, so its exponentials are the standard
// library's.
#include <algorithm>
#include <cmath>

#include "kernels/common/typed.h"
#include "kernels/cpu/parallel.h"
#include "kernels/delta_rule/delta_rule_args.h"

namespace forge {
namespace {

constexpr int64_t kRowsAtOnce = 16;
constexpr float kLinearFrom = 20;  // softplus(x) is x in fp32

float softplus(float x) { return x > kLinearFrom ? x : std::log1p(std::exp(x)); }
float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

template <class T>
float number(const void* vector, int64_t i) {
  return to_float(static_cast<const T*>(vector)[i]);
}

// Returns the step size of a state space's head.
float step_of(float x, float least) { return std::max(softplus(x), least); }

template <class T>
void forward_row(const DeltaGatesForward& f, int64_t row) {
  const T *a = row_of<T>(f.a, row, f.a_stride), *b = f.b ? row_of<T>(f.b, row, f.b_stride) : nullptr;
  float* gates = f.gates + row * f.gates_stride;
  for (int64_t i = 0; i < f.heads; ++i) {
    const float step = step_of(to_float(a[i]) + number<T>(f.dt_bias, i), f.least_step);
    gates[i] = -std::exp(number<T>(f.a_log, i)) * step;
    gates[f.heads + i] = b ? sigmoid(to_float(b[i])) : step;
  }
}

template <class T>
float d_a_of(const DeltaGatesBackward& g, int64_t row, int64_t head) {
  const float x = to_float(row_of<T>(g.a, row, g.a_stride)[head]) + number<T>(g.dt_bias, head);
  const float* d_gates = g.d_gates + row * g.d_gates_stride;
  if (softplus(x) < g.least_step) return 0;
  const float by_decay = d_gates[head] * -std::exp(number<T>(g.a_log, head));
  return (g.b ? by_decay : by_decay + d_gates[g.heads + head]) * sigmoid(x);
}

template <class T>
void backward_row(const DeltaGatesBackward& g, int64_t row) {
  T* d_a = row_of<T>(g.d_a, row, g.d_a_stride);
  const float* d_beta = g.d_gates + row * g.d_gates_stride + g.heads;
  for (int64_t i = 0; i < g.heads; ++i) {
    if (g.b) {
      const float beta = sigmoid(to_float(row_of<T>(g.b, row, g.b_stride)[i]));
      from_float(d_beta[i] * beta * (1 - beta), row_of<T>(g.d_b, row, g.d_b_stride)[i]);
    }
    from_float(d_a_of<T>(g, row, i), d_a[i]);
  }
}

// Adds the gradients of a head's a_log and dt_bias, token after token, whatever the threads.
template <class T>
void sum_head(const DeltaGatesBackward& g, int64_t head) {
  double of_a_log = 0, of_dt_bias = 0;
  const float rate = -std::exp(number<T>(g.a_log, head));
  for (int64_t row = 0; row < g.rows; ++row) {
    const float x = to_float(row_of<T>(g.a, row, g.a_stride)[head]) + number<T>(g.dt_bias, head);
    of_a_log += g.d_gates[row * g.d_gates_stride + head] * rate * step_of(x, g.least_step);
    of_dt_bias += d_a_of<T>(g, row, head);
  }
  if (g.d_a_log) g.d_a_log[head] += static_cast<float>(of_a_log);
  if (g.d_dt_bias) g.d_dt_bias[head] += static_cast<float>(of_dt_bias);
}

// Calls visit(T{}, i) for i < count.
template <class Visit>
void each(Element type, int64_t count, int64_t grain, Visit visit) {
  of_type(type, [&](auto zero) {
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) visit(zero, i);
    });
  });
}

}  // namespace

void delta_gates_forward_cpu(const DeltaGatesForward& args) {
  each(args.type, args.rows, kRowsAtOnce,
       [&](auto zero, int64_t row) { forward_row<decltype(zero)>(args, row); });
}

void delta_gates_backward_cpu(const DeltaGatesBackward& args) {
  // Sums come first: d a may lie over a.
  if (args.d_a_log || args.d_dt_bias)
    each(args.type, args.heads, 1,
         [&](auto zero, int64_t head) { sum_head<decltype(zero)>(args, head); });
  each(args.type, args.rows, kRowsAtOnce,
       [&](auto zero, int64_t row) { backward_row<decltype(zero)>(args, row); });
}

}  // namespace forge
