#include "kernels/device/gemm_lt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <bit>
#include <compare>
#include <map>
#include <memory>
#include <string>

#include "core/lib/base/error.h"

namespace forge {
namespace {

// Returns a function of cuBLASLt, or null. LibTorch's CUDA half loads cuBLASLt; it need not be
// there when the engine is linked.
template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}
#define FORGE_LOADED(name) decltype(&::name) name = loaded<decltype(::name)>(#name)
struct Library {
  FORGE_LOADED(cublasLtCreate);
  FORGE_LOADED(cublasLtMatmul);
  FORGE_LOADED(cublasLtMatmulAlgoGetHeuristic);
  FORGE_LOADED(cublasLtMatmulDescCreate);
  FORGE_LOADED(cublasLtMatmulDescDestroy);
  FORGE_LOADED(cublasLtMatmulDescSetAttribute);
  FORGE_LOADED(cublasLtMatmulPreferenceCreate);
  FORGE_LOADED(cublasLtMatmulPreferenceDestroy);
  FORGE_LOADED(cublasLtMatmulPreferenceSetAttribute);
  FORGE_LOADED(cublasLtMatrixLayoutCreate);
  FORGE_LOADED(cublasLtMatrixLayoutDestroy);

  bool whole() const {
    return cublasLtCreate && cublasLtMatmul && cublasLtMatmulAlgoGetHeuristic && cublasLtMatmulDescCreate && cublasLtMatmulDescDestroy &&
           cublasLtMatmulDescSetAttribute && cublasLtMatmulPreferenceCreate && cublasLtMatmulPreferenceDestroy &&
           cublasLtMatmulPreferenceSetAttribute && cublasLtMatrixLayoutCreate && cublasLtMatrixLayoutDestroy;
  }
};
#undef FORGE_LOADED
const Library& library() {
  static const Library lt;
  return lt;
}

constexpr int64_t kMostAligned = 256;  // bytes, of which cuBLASLt's kernels want no more

// Returns the largest power of two, up to kMostAligned bytes, that the pointer is a multiple of.
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | static_cast<uintptr_t>(kMostAligned);
  return uint32_t{1} << std::countr_zero(address);
}

// All that decides how a product is multiplied; the key of the cache of products.
struct Shape {
  int gpu;
  Element type, out_type;
  int64_t m, n, k, a_stride, b_stride, c_stride, out_stride;
  bool a_transposed, b_transposed;
  uint32_t a_aligned, b_aligned, c_aligned, out_aligned;
  uint64_t workspace_bytes;

  auto operator<=>(const Shape&) const = default;
};
Shape shape_of(int gpu, const Gemm& g) {
  return {gpu, g.type, g.out_type, g.m, g.n, g.k, g.a.stride, g.b.stride, g.c ? g.c_stride : g.out_stride, g.out_stride, g.a.transposed, g.b.transposed,
          alignment_of(g.a.data), alignment_of(g.b.data), alignment_of(g.c ? g.c : g.out), alignment_of(g.out),
          g.workspace ? static_cast<uint64_t>(device_gemm_workspace(g)) : 0};
}

std::string text_of(const Shape& s) {
  return std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k) + " in " + std::to_string(8 * bytes_of(s.type)) + " bits";
}
void check(cublasStatus_t status, const Shape& s, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::environment, "a product of " + text_of(s) + ": " + what + " of cuBLASLt answers " + std::to_string(status));
}

cudaDataType_t type_of(Element type) { return type == Element::f32 ? CUDA_R_32F : type == Element::bf16 ? CUDA_R_16BF : CUDA_R_16F; }

// Returns the GPU's handle, which lives until the process ends.
cublasLtHandle_t handle_of(const Shape& s) {
  static std::map<int, cublasLtHandle_t> handles;
  cublasLtHandle_t& handle = handles[s.gpu];
  if (!handle) check(library().cublasLtCreate(&handle), s, "the beginning");
  return handle;
}

template <class Described>
using Owned = std::unique_ptr<Described, cublasStatus_t (*)(Described*)>;

// Describes row-major rows as the columns that cuBLASLt takes them for.
Owned<cublasLtMatrixLayoutOpaque_t> layout(const Shape& s, Element type, int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check(library().cublasLtMatrixLayoutCreate(&made, type_of(type), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), stride), s, "a layout");
  return {made, library().cublasLtMatrixLayoutDestroy};
}

// outᵀ = Bᵀ Aᵀ: a row-major matrix is its transpose in column-major order, so b is cuBLASLt's first
// factor and a its second.
struct Product {
  Owned<cublasLtMatmulDescOpaque_t> description;
  Owned<cublasLtMatrixLayoutOpaque_t> a, b, c, out;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;

  explicit Product(const Shape& s)
      : description(described(s)),
        a(s.a_transposed ? layout(s, s.type, s.k, s.m, s.a_stride) : layout(s, s.type, s.m, s.k, s.a_stride)),
        b(s.b_transposed ? layout(s, s.type, s.n, s.k, s.b_stride) : layout(s, s.type, s.k, s.n, s.b_stride)),
        c(layout(s, s.out_type, s.m, s.n, s.c_stride)),
        out(layout(s, s.out_type, s.m, s.n, s.out_stride)) {
    find(s);
  }

 private:
  static Owned<cublasLtMatmulDescOpaque_t> described(const Shape& s) {
    cublasLtMatmulDesc_t made = nullptr;
    check(library().cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), s, "a description");
    Owned<cublasLtMatmulDescOpaque_t> owned(made, library().cublasLtMatmulDescDestroy);
    const auto set = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
      const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
      check(library().cublasLtMatmulDescSetAttribute(made, which, &value, sizeof value), s, "an operand's transpose");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.b_transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.a_transposed);
    return owned;
  }

  void find(const Shape& s) {
    cublasLtMatmulPreference_t made = nullptr;
    check(library().cublasLtMatmulPreferenceCreate(&made), s, "a preference");
    const Owned<cublasLtMatmulPreferenceOpaque_t> owned(made, library().cublasLtMatmulPreferenceDestroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(library().cublasLtMatmulPreferenceSetAttribute(made, which, &value, sizeof value), s, "a preference");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, s.workspace_bytes);
    // Parts of the depth are added up in fp32 in the workspace: neither in out's type nor in out
    // itself, which would round more than once.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.b_aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.a_aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.c_aligned);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.out_aligned);
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status = library().cublasLtMatmulAlgoGetHeuristic(handle_of(s), description.get(), b.get(), a.get(), c.get(), out.get(), made, 1,
                                                                           &best, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
    check(status, s, "the choice of a kernel");
    found = count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    algorithm = best.algo;
  }
};

}  // namespace

bool gemm_lt(int gpu, const Gemm& g, CudaStream stream) {
  FORGE_CHECK(g.batch == 1, "several products at once");
  if (g.m == 0 || g.n == 0 || g.k == 0 || !library().whole()) return false;
  static std::map<Shape, Product> known;
  const Shape shape = shape_of(gpu, g);
  const auto at = known.find(shape);
  const Product& p = at != known.end() ? at->second : known.try_emplace(shape, shape).first->second;
  if (!p.found) return false;
  const float beta = g.add ? 1 : 0;
  check(library().cublasLtMatmul(handle_of(shape), p.description.get(), &g.alpha, g.b.data, p.b.get(), g.a.data, p.a.get(), &beta,
                                 g.c ? g.c : g.out, p.c.get(), g.out, p.out.get(), &p.algorithm, g.workspace, shape.workspace_bytes, stream),
        shape, "the product");
  return true;
}

}  // namespace forge
