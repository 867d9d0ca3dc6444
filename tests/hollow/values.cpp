#include "tests/hollow/values.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/graph/route_rule.h"
#include "tests/hollow/memory.h"

namespace forge::hollow {
namespace {

template <class T>
T argument(void** arguments, int number) {
  T value;
  std::memcpy(&value, arguments[number], sizeof value);
  return value;
}

// NormArgs of kernels/optimizer/optimizer.cuh. Gradients that no kernel wrote are zero, so the norm
// is, too: it is not computed, since that would distort the host's measured time.
struct NormArgs {
  const float* grad;
  double* partial;
  uint32_t* finished;
  float* verdict;
  int64_t count;
  const float* unscale;
  float max_norm;
};
std::function<void()> norm(void** arguments) {
  return [a = argument<NormArgs>(arguments, 0)] {
    a.verdict[0] = 0, a.verdict[1] = 1, a.verdict[2] = 1;
  };
}

// ChooseArgs of kernels/experts/route.cuh. The router's scores are all equal here, so experts are
// chosen in turn, and each has rows.
struct ChooseArgs {
  struct {
    const void* data;
    int64_t stride;
  } logits;
  const void* correction;
  float* weights;
  int32_t* places;
  RouteRule rule;
  int64_t experts;
};
std::function<void()> choose(void** arguments, int64_t tokens) {
  return [a = argument<ChooseArgs>(arguments, 0), tokens] {
    const int64_t slots = tokens * a.rule.per_token;
    for (int64_t i = 0; i < slots; ++i) a.places[i] = static_cast<int32_t>(i % a.experts);
  };
}
// Sorts for expert_sort_kernel(places, ends, slots, experts): experts in, rows out.
std::function<void()> sort(void** arguments) {
  return [places = argument<int32_t*>(arguments, 0), ends = argument<int32_t*>(arguments, 1),
          slots = argument<int64_t>(arguments, 2), experts = argument<int64_t>(arguments, 3)] {
    std::vector<int32_t> next(static_cast<size_t>(experts) + 1);
    for (int64_t i = 0; i < slots; ++i) ++next[static_cast<size_t>(places[i]) + 1];
    for (int64_t e = 0; e < experts; ++e)
      ends[e] = next[static_cast<size_t>(e) + 1] += next[static_cast<size_t>(e)];
    for (int64_t i = 0; i < slots; ++i) places[i] = next[static_cast<size_t>(places[i])]++;
  };
}

// LogitsArgs of kernels/lm_head/logits.cuh. All logits are zero here, so each token has the
// probability 1 / vocabulary.
struct LogitsArgs {
  const void* logits;
  const int64_t* targets;
  float *logp, *logsumexp, *mean_logit, *entropy, *loss;
  const float *loss_weight, *g_logp, *g_logsumexp, *g_mean_logit, *g_entropy;
  int64_t vocab, stride;
};
std::function<void()> logits(void** arguments, int64_t positions) {
  return [a = argument<LogitsArgs>(arguments, 0), positions] {
    const float chance = std::log(static_cast<float>(a.vocab));
    const auto set = [](float* at, int64_t i, float value) { if (at) at[i] = value; };
    for (int64_t i = 0; i < positions; ++i) {
      set(a.logp, i, -chance), set(a.logsumexp, i, chance), set(a.entropy, i, chance),
          set(a.mean_logit, i, 0);
      set(a.loss, i, (a.loss_weight ? a.loss_weight[i] : 1) * chance);
    }
  };
}

// Computes LibTorch's softmax of at most 1,024 columns: softmax_warp_forward<in, out, sums, log2 of
// the columns, is it log?, …>(to, from, rows, stride, columns, …), of zeros.
std::function<void()> log_softmax(void** arguments) {
  return [to = argument<float*>(arguments, 0), rows = argument<int>(arguments, 2),
          stride = argument<int>(arguments, 3), columns = argument<int>(arguments, 4)] {
    for (int64_t i = 0; i < int64_t{rows} * stride; ++i)
      to[i] = -std::log(static_cast<float>(columns));
  };
}
// The loop that LibTorch 2.11's gather passes to its kernel (count, loop): four-byte numbers by
// int64 indices along adjacent rows. An index that no kernel computed may have any value.
struct GatherLoop {
  char offsets[608];
  const int64_t* index;  // in a row
  int64_t columns;
  const void* unused;
  float* to;
  int64_t strides[2];
  const float* from;
};
std::function<void()> gather(void** arguments) {
  const auto count = static_cast<size_t>(argument<int>(arguments, 0));
  const auto a = argument<GatherLoop>(arguments, 1);
  const auto columns = static_cast<size_t>(a.columns);
  const bool as_said = lies_in(Kind::device, a.index, 8 * count) &&
                       lies_in(Kind::device, a.to, 4 * count) &&
                       lies_in(Kind::device, a.from, 4 * count * columns);
  if (!as_said) return nullptr;  // along another dimension, or with rows that are not adjacent
  return [=] {
    for (size_t i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(a.index[i]);
      a.to[i] = a.from[i * columns + (index < columns ? index : 0)];
    }
  };
}

bool holds(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// LibTorch's fill: vectorized_elementwise_kernel<width, FillFunctor<T>, array<char*, 1>>(count,
// value, data).
template <class T>
std::function<void()> fill(void** arguments) {
  return [count = argument<int>(arguments, 0), value = argument<T>(arguments, 1),
          data = argument<T*>(arguments, 2)] {
    for (int i = 0; i < count; ++i) data[i] = value;
  };
}
std::function<void()> fill_of(const std::string& mangled, void** arguments) {
  for (const auto& [type, of] : {std::pair{"FillFunctorIfE", &fill<float>},
                                 {"FillFunctorIdE", &fill<double>},
                                 {"FillFunctorIlE", &fill<int64_t>},
                                 {"FillFunctorIiE", &fill<int32_t>},
                                 {"FillFunctorIbE", &fill<bool>}})
    if (holds(mangled, type)) return of(arguments);
  return nullptr;
}

}  // namespace

std::function<void()> stand_in(const std::string& mangled, void** arguments, int64_t blocks) {
  const bool own = mangled.starts_with("_ZN5forge") || holds(mangled, "N5forge");
  if (own && holds(mangled, "norm_kernel") && holds(mangled, "NormArgs") &&
      !holds(mangled, "RmsNormArgs"))
    return norm(arguments);
  if (own && holds(mangled, "expert_choose_kernel")) return choose(arguments, blocks);
  if (own && holds(mangled, "expert_sort_kernel")) return sort(arguments);
  if (own && holds(mangled, "logits_kernel")) return logits(arguments, blocks);
  if (holds(mangled, "softmax_warp_forwardIfff") && holds(mangled, "ELb1ELb0EE"))
    return log_softmax(arguments);
  if (holds(mangled, "scatter_gather_internal_kernelILb0ENS0_10OpaqueTypeILi4EEElE"))
    return gather(arguments);
  if (holds(mangled, "vectorized_elementwise_kernel")) return fill_of(mangled, arguments);
  return nullptr;
}

}  // namespace forge::hollow
