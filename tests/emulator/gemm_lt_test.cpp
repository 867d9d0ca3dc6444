// Tests the calls that gemm_lt makes to cuBLASLt: this program exports functions of cuBLASLt's
// names that multiply on the host as NVIDIA documents them, column by column, and check their
// arguments. The emulator's product, which is row by row, must give the same.
#include "kernels/device/gemm_lt.h"

#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/test.h"

namespace {

// The calls that the library received, and the answers that it gives.
struct Seen {
  int handles = 0, searches = 0, products = 0;
  uint64_t workspace_bytes = 0;  // that the last product might use
  cublasStatus_t search_status = CUBLAS_STATUS_SUCCESS, product_status = CUBLAS_STATUS_SUCCESS;
  bool finds = true;
};
Seen seen;

struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a, b;
};
struct Layout {
  cudaDataType_t type;
  int64_t rows, columns, ld;
};
struct Preference {
  uint64_t workspace_bytes;
  uint32_t reductions, aligned[4];  // of A, B, C, D
};

// Returns the content of an opaque descriptor, which holds its address.
template <class Content, class Opaque>
Content& in(Opaque* opaque) {
  Content* content = nullptr;
  std::memcpy(&content, opaque->data, sizeof content);
  return *content;
}
template <class Content, class Opaque>
cublasStatus_t create(Opaque** made, const Content& content) {
  *made = new Opaque();
  const auto* at = new Content(content);
  std::memcpy((*made)->data, &at, sizeof at);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Content, class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete &in<Content>(opaque);
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}
template <class Value>
cublasStatus_t take(Value& to, const void* from, size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

double load(const Layout& l, const void* data, int64_t row, int64_t column) {
  const int64_t at = row + column * l.ld;
  return l.type == CUDA_R_32F ? static_cast<const float*>(data)[at] : forge::to_float(static_cast<const forge::Bf16*>(data)[at]);
}
void store(const Layout& l, void* data, int64_t row, int64_t column, double value) {
  const int64_t at = row + column * l.ld;
  if (l.type == CUDA_R_32F)
    static_cast<float*>(data)[at] = static_cast<float>(value);
  else
    forge::from_float(static_cast<float>(value), static_cast<forge::Bf16*>(data)[at]);
}

bool fits(const Description& d, const Layout& a, const Layout& b, const Layout& c, const Layout& out) {
  for (const Layout& l : {a, b, c, out})
    if (l.ld < l.rows) return false;
  const int64_t m = d.a == CUBLAS_OP_N ? a.rows : a.columns, k = d.a == CUBLAS_OP_N ? a.columns : a.rows;
  const int64_t n = d.b == CUBLAS_OP_N ? b.columns : b.rows, k_of_b = d.b == CUBLAS_OP_N ? b.rows : b.columns;
  return d.compute == CUBLAS_COMPUTE_32F && d.scale == CUDA_R_32F && k == k_of_b && out.rows == m && out.columns == n && c.rows == m &&
         c.columns == n && c.type == out.type && a.type == b.type;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
  *made = reinterpret_cast<cublasLtHandle_t>(new int(++seen.handles));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  return create(made, Description{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N});
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which, const void* value, size_t bytes) {
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) return take(in<Description>(d).a, value, bytes);
  return which == CUBLASLT_MATMUL_DESC_TRANSB ? take(in<Description>(d).b, value, bytes) : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return destroy<Description>(d); }
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
  return create(made, Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return destroy<Layout>(l); }
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return create(made, Preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t which, const void* value, size_t bytes) {
  Preference& to = in<Preference>(p);
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(to.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(to.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take(to.aligned[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take(to.aligned[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take(to.aligned[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(to.aligned[3], value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return destroy<Preference>(p); }

// Returns an algorithm that records the problem it was found for.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  ++seen.searches;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (seen.search_status != CUBLAS_STATUS_SUCCESS) return seen.search_status;
  if (asked < 1 || !fits(in<Description>(d), in<Layout>(a), in<Layout>(b), in<Layout>(c), in<Layout>(out))) return CUBLAS_STATUS_INVALID_VALUE;
  if (in<Preference>(p).reductions & ~static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) return CUBLAS_STATUS_INVALID_VALUE;
  *count = seen.finds;
  if (!seen.finds) return CUBLAS_STATUS_SUCCESS;
  static_assert(sizeof(Preference) <= sizeof results[0].algo);
  std::memcpy(&results[0].algo, &in<Preference>(p), sizeof(Preference));
  results[0].state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* out,
                              cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t) {
  ++seen.products;
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (seen.product_status != CUBLAS_STATUS_SUCCESS) return seen.product_status;
  const Description& of = in<Description>(d);
  const Layout &la = in<Layout>(a_layout), &lb = in<Layout>(b_layout), &lc = in<Layout>(c_layout), &lo = in<Layout>(out_layout);
  Preference found;
  std::memcpy(&found, algorithm, sizeof found);
  seen.workspace_bytes = found.workspace_bytes;
  if (!fits(of, la, lb, lc, lo) || workspace_bytes < found.workspace_bytes || (!workspace && found.workspace_bytes > 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* pointers[] = {a, b, c, out};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(pointers[i]) % found.aligned[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace) std::memset(workspace, 0xff, workspace_bytes);
  const int64_t k = of.a == CUBLAS_OP_N ? la.columns : la.rows;
  for (int64_t column = 0; column < lo.columns; ++column)
    for (int64_t row = 0; row < lo.rows; ++row) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (of.a == CUBLAS_OP_N ? load(la, a, row, l) : load(la, a, l, row)) * (of.b == CUBLAS_OP_N ? load(lb, b, l, column) : load(lb, b, column, l));
      store(lo, out, row, column, *static_cast<const float*>(alpha) * sum + *static_cast<const float*>(beta) * load(lc, c, row, column));
    }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

namespace forge {
namespace {

// Operands whose rows have gaps of different sizes; `off`: elements after an aligned address.
struct Operands {
  std::vector<uint64_t> a, b, c, out, workspace;
  Gemm gemm;

  Operands(Element type, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed, int64_t off = 0)
      : a(numbers(type, m, k, 1)), b(numbers(type, k, n, 2)), c(numbers(type, m, n, 3)), out(numbers(type, m, n, 4)) {
    const auto at = [&](std::vector<uint64_t>& x) { return reinterpret_cast<char*>(x.data()) + off * bytes_of(type); };
    gemm = {.type = type, .m = m, .n = n, .k = k};
    gemm.a = {at(a), (a_transposed ? m : k) + 1, a_transposed}, gemm.b = {at(b), (b_transposed ? k : n) + 2, b_transposed};
    gemm.out_type = type, gemm.out = at(out), gemm.out_stride = n + 4, gemm.alpha = 0.5f;
    gemm.add = true, gemm.c = at(c), gemm.c_stride = n + 3;
    workspace.resize(static_cast<size_t>(device_gemm_workspace(gemm)));
    gemm.workspace = workspace.data();
  }
  static std::vector<uint64_t> numbers(Element type, int64_t rows, int64_t columns, int seed) {
    const int64_t count = (rows + 9) * (columns + 9);
    std::vector<uint64_t> x(static_cast<size_t>(count / 2 + 1));
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(std::sin(static_cast<double>(i * seed + seed)));
      if (type == Element::f32)
        reinterpret_cast<float*>(x.data())[i] = value;
      else
        from_float(value, reinterpret_cast<Bf16*>(x.data())[i]);
    }
    return x;
  }
};

constexpr int kGpu = 0, kAnotherGpu = 1;

}  // namespace

TEST_CASE("cuBLASLt is asked for what the emulator multiplies") {
  for (const Element type : {Element::f32, Element::bf16})
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true})
        for (const int64_t off : {0, 1, 8}) {
          Operands lt(type, 5, 7, 11, a_transposed, b_transposed, off), twin(type, 5, 7, 11, a_transposed, b_transposed, off);
          INFO(bytes_of(type) << " bytes" << (a_transposed ? ", aᵀ" : "") << (b_transposed ? ", bᵀ" : "") << ", " << off << " elements off");
          CHECK(gemm_lt(kGpu, lt.gemm, nullptr));
          device_gemm(twin.gemm, nullptr);
          CHECK(lt.out == twin.out);  // gaps, too
          CHECK(lt.c == twin.c);
          CHECK(seen.workspace_bytes == 8 * 5 * 7);
        }
}

TEST_CASE("without an addend of its own cuBLASLt adds to the result or writes it, in fp32, too") {
  for (const Element out_type : {Element::f32, Element::bf16})
    for (const bool add : {false, true}) {
      const auto alone = [&](Operands& x) -> Gemm& {
        x.out = Operands::numbers(out_type, 5, 7, 4);
        x.gemm.c = nullptr, x.gemm.c_stride = 0, x.gemm.out = x.out.data(), x.gemm.out_type = out_type, x.gemm.add = add, x.gemm.workspace = nullptr;
        return x.gemm;
      };
      Operands lt(Element::bf16, 5, 7, 11, false, true), twin(Element::bf16, 5, 7, 11, false, true);
      INFO(bytes_of(out_type) << " bytes" << (add ? ", added" : ""));
      CHECK(gemm_lt(kGpu, alone(lt), nullptr));
      device_gemm(alone(twin), nullptr);
      CHECK(lt.out == twin.out);
    }
}

TEST_CASE("a kernel is searched for once a shape, and again for other strides, places and GPUs") {
  Operands x(Element::bf16, 3, 4, 6, false, true);
  const auto searches = [&](const Gemm& g, int gpu = kGpu) {
    const int before = seen.searches;
    CHECK(gemm_lt(gpu, g, nullptr));
    return seen.searches - before;
  };
  CHECK(searches(x.gemm) == 1);
  CHECK(searches(x.gemm) == 0);
  Gemm other = x.gemm;
  other.alpha = 2;
  CHECK(searches(other) == 0);
  other.c_stride = 5;
  CHECK(searches(other) == 1);
  other = x.gemm, other.c = static_cast<const char*>(x.gemm.c) + 2;
  CHECK(searches(other) == 1);
  CHECK(searches(x.gemm, kAnotherGpu) == 1);
  other = x.gemm, other.workspace = nullptr;
  CHECK(searches(other) == 1);
  CHECK(seen.workspace_bytes == 0);
  CHECK(searches(x.gemm) == 0);
  CHECK(seen.handles == 2);  // one for each GPU
}

TEST_CASE("where cuBLASLt has no kernel another multiplies, and its faults are named") {
  Operands x(Element::bf16, 2, 8, 16, false, true), empty(Element::bf16, 2, 8, 0, false, true);
  const std::vector<uint64_t> before = x.out;
  const int products = seen.products;
  seen.finds = false;
  CHECK_FALSE(gemm_lt(kGpu, x.gemm, nullptr));
  seen.finds = true;
  CHECK_FALSE(gemm_lt(kGpu, x.gemm, nullptr));  // nor later: it is known
  CHECK_FALSE(gemm_lt(kGpu, empty.gemm, nullptr));
  seen.search_status = CUBLAS_STATUS_NOT_SUPPORTED;
  CHECK_FALSE(gemm_lt(kAnotherGpu, x.gemm, nullptr));
  CHECK(x.out == before);
  CHECK(seen.products == products);
  seen.search_status = CUBLAS_STATUS_INVALID_VALUE;
  x.gemm.n = 7;
  CHECK_THROWS_WITH(gemm_lt(kGpu, x.gemm, nullptr), Catch::Contains("2 x 7 x 16 in 16 bits") && Catch::Contains("the choice of a kernel"));
  seen.search_status = CUBLAS_STATUS_SUCCESS, seen.product_status = CUBLAS_STATUS_EXECUTION_FAILED;
  CHECK_THROWS_WITH(gemm_lt(kGpu, x.gemm, nullptr), Catch::Contains("the product") && Catch::Contains("13"));
  seen.product_status = CUBLAS_STATUS_SUCCESS;
  CHECK(gemm_lt(kGpu, x.gemm, nullptr));
}

}  // namespace forge
