// The functions that LibTorch and the engine call of cuBLAS, cuBLASLt, cuDNN and NCCL. Products are
// counted and not computed.
#include <library_types.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/hollow/memory.h"
#include "tests/hollow/report.h"
#include "tests/hollow/work.h"

using namespace forge::hollow;

namespace {

constexpr int kSuccess = 0, kNotInitialized = 1;

// A handle of cuBLAS, with the stream that its products go to.
struct Blas {
  cudaStream_t stream = nullptr;
  int math_mode = 0, pointer_mode = 0;
};
// Counts a product. Results in 16 bits whose sums may be rounded between parts of the depth have a
// name of their own.
int product(void* handle, const std::string& name, int type = CUDA_R_32F) {
  if (!handle) return kNotInitialized;
  const auto* blas = static_cast<Blas*>(handle);
  constexpr int kWholeSums = 0x10;  // CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
  const bool short_sums =
      (type == CUDA_R_16F || type == CUDA_R_16BF) && !(blas->math_mode & kWholeSums);
  return give(blas->stream, Work::product, name + (short_sums ? ", sums in 16 bits" : ""), nullptr);
}

// Makes an opaque object of cuBLASLt that describes a product. Only the caller's library reads it.
template <size_t kBytes>
int make(void** thing) {
  *thing = std::calloc(1, kBytes);
  return kSuccess;
}
int destroy(void* thing) {
  std::free(thing);
  return kSuccess;
}

size_t bytes_of_nccl(int type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // ncclDataType_t
  return kBytes[type];
}

}  // namespace

extern "C" {

// ---- cuBLAS

int cublasCreate_v2(void** handle) {
  *handle = new Blas;
  return kSuccess;
}
int cublasDestroy_v2(void* handle) {
  delete static_cast<Blas*>(handle);
  return kSuccess;
}
int cublasSetStream_v2(void* handle, cudaStream_t stream) {
  static_cast<Blas*>(handle)->stream = stream;
  return kSuccess;
}
int cublasSetWorkspace_v2(void*, void*, size_t) { return kSuccess; }
int cublasSetMathMode(void* handle, int mode) {
  static_cast<Blas*>(handle)->math_mode = mode;
  return kSuccess;
}
int cublasGetMathMode(void* handle, int* mode) {
  *mode = static_cast<Blas*>(handle)->math_mode;
  return kSuccess;
}
int cublasSetPointerMode_v2(void* handle, int mode) {
  static_cast<Blas*>(handle)->pointer_mode = mode;
  return kSuccess;
}
int cublasGetPointerMode_v2(void* handle, int* mode) {
  *mode = static_cast<Blas*>(handle)->pointer_mode;
  return kSuccess;
}
#define FORGE_PRODUCT(name) \
  int name(void* handle, ...) { return product(handle, #name); }
FORGE_PRODUCT(cublasSgemm_v2)
FORGE_PRODUCT(cublasDgemm_v2)
FORGE_PRODUCT(cublasSgemmEx)
FORGE_PRODUCT(cublasSgemmStridedBatched)
FORGE_PRODUCT(cublasDgemmStridedBatched)
FORGE_PRODUCT(cublasSgemv_v2)
FORGE_PRODUCT(cublasDgemv_v2)
FORGE_PRODUCT(cublasSdot_v2)
FORGE_PRODUCT(cublasDdot_v2)
FORGE_PRODUCT(cublasDotEx)
FORGE_PRODUCT(cublasStrsm_v2)
FORGE_PRODUCT(cublasDtrsm_v2)
FORGE_PRODUCT(cublasStrsmBatched)
FORGE_PRODUCT(cublasDtrsmBatched)
#undef FORGE_PRODUCT
int cublasGemmEx(void* handle, int, int, int, int, int, const void*, const void*, int, int,
                 const void*, int, int, const void*, void*, int type, int, int, int) {
  return product(handle, "cublasGemmEx", type);
}
int cublasGemmStridedBatchedEx(void* handle, int, int, int, int, int, const void*, const void*, int,
                               int, long long, const void*, int, int, long long, const void*, void*,
                               int type, int, long long, int, int, int) {
  return product(handle, "cublasGemmStridedBatchedEx", type);
}

// ---- cuBLASLt

size_t cublasLtGetVersion() { return 130000; }
int cublasLtCreate(void** handle) { return make<64>(handle); }
int cublasLtDestroy(void* handle) { return destroy(handle); }
int cublasLtMatmulDescCreate(void** thing, int, int) { return make<256>(thing); }
int cublasLtMatmulDescDestroy(void* thing) { return destroy(thing); }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return kSuccess; }
int cublasLtMatmulPreferenceCreate(void** thing) { return make<256>(thing); }
int cublasLtMatmulPreferenceDestroy(void* thing) { return destroy(thing); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return kSuccess; }
int cublasLtMatrixLayoutCreate(void** thing, int, uint64_t, uint64_t, int64_t) {
  return make<256>(thing);
}
int cublasLtMatrixLayoutDestroy(void* thing) { return destroy(thing); }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) { return kSuccess; }
// Returns one algorithm, without scratch memory (cublasLtMatmulHeuristicResult_t is 64 + 8 + 4 + 4
// + 16 bytes).
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   void* result, int* count) {
  std::memset(result, 0, 96);
  *count = 1;
  return kSuccess;
}
int cublasLtMatmul(void* handle, void*, const void*, const void*, void*, const void*, void*,
                   const void*, const void*, void*, void*, void*, const void*, void*, size_t,
                   cudaStream_t stream) {
  return handle ? static_cast<int>(give(stream, Work::product, "cublasLtMatmul", nullptr))
                : kNotInitialized;
}

// ---- cuDNN: LibTorch asks for its version when it chooses how to attend

size_t cudnnGetVersion() { return 91500; }
int cudnnCreate(void** handle) { return make<64>(handle); }
int cudnnDestroy(void* handle) { return destroy(handle); }
int cudnnSetStream(void*, cudaStream_t) { return kSuccess; }

// ---- NCCL, of one rank

int ncclGetVersion(int* version) {
  *version = 22900;
  return kSuccess;
}
int ncclGetUniqueId(void* id) {
  std::memset(id, 1, 128);
  return kSuccess;
}
struct NcclUniqueId {
  char bytes[128];
};
int ncclCommInitRank(void** communicator, int, NcclUniqueId, int) { return make<64>(communicator); }
int ncclCommInitRankConfig(void** communicator, int, NcclUniqueId, int, void*) {
  return make<64>(communicator);
}
int ncclCommDestroy(void*) { return kSuccess; }
int ncclCommAbort(void*) { return kSuccess; }
int ncclCommFinalize(void*) { return kSuccess; }
int ncclCommGetAsyncError(void*, int* error) {
  *error = kSuccess;
  return kSuccess;
}
int ncclCommCount(void*, int* ranks) {
  *ranks = 1;
  return kSuccess;
}
int ncclCommUserRank(void*, int* rank) {
  *rank = 0;
  return kSuccess;
}
int ncclGroupStart() { return kSuccess; }
int ncclGroupEnd() { return kSuccess; }
const char* ncclGetErrorString(int) { return "an error of the hollow NCCL"; }
const char* ncclGetLastError(void*) { return ""; }
int ncclAllReduce(const void* from, void* to, size_t count, int type, int, void*,
                  cudaStream_t stream) {
  const size_t bytes = count * bytes_of_nccl(type);
  return give(stream, Work::kernel, "ncclAllReduce", [=] { std::memmove(to, from, bytes); });
}

// ---- libtorch_nvshmem binds it when it is loaded
void nvshmem_init() {}

}  // extern "C"
