// Compares the launches of attention_flash.cpp with those of LibTorch's own entry points: the same
// kernels, grids and shared memory, and the same arguments byte for byte, except the addresses of
// results and scratch. This checks flash_params.h against the linked library on a machine without a
// GPU (recording_cuda.h).
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <map>
#include <numeric>

#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_flash.h"
#include "kernels/attention/flash_params.h"
#include "kernels/attention/group_sums.h"
#include "tests/kernels/flash/recording_cuda.h"
#include "tests/test.h"

using namespace forge;
using pytorch_flash::Flash_bwd_params;
using pytorch_flash::Flash_fwd_params;
using recording::Launch;

namespace {
std::vector<GroupSums> group_sums;
std::vector<ClearedSums> cleared;
}  // namespace
// Replace the kernels and record their arguments.
void forge::group_sums_cuda(const GroupSums& args, CudaStream) { group_sums.push_back(args); }
void forge::clear_sums_cuda(const ClearedSums& args, CudaStream) { cleared.push_back(args); }

namespace {

constexpr double kScale = 0.3;

bool is_flash(const std::string& kernel, const char* direction) {
  return kernel.find(std::string("flash_") + direction) != std::string::npos;
}
size_t argument_bytes(const std::string& kernel) {
  return is_flash(kernel, "fwd") ? sizeof(Flash_fwd_params) : is_flash(kernel, "bwd") ? sizeof(Flash_bwd_params) : 0;
}

struct Shape {
  Element type;
  int64_t heads, kv_heads, head_dim;
  std::vector<int64_t> lengths;
  int64_t multiprocessors = 0;  // the card's, of a deterministic backward
  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

// Operands in the layout of a step: q, k and v side by side in rows with gaps, results in other
// rows with gaps.
struct Operands {
  Shape shape;
  at::Tensor q, k, v, out, d_out, d_q, d_k, d_v, cu, lse, workspace;

  Operands(const Shape& s, c10::Device device) : shape(s) {
    const at::TensorOptions options = at::TensorOptions(device).dtype(s.type == Element::bf16 ? at::kBFloat16 : at::kHalf);
    const auto rows = [&](int64_t heads, int64_t spare) {
      return at::empty({s.tokens(), heads + spare, s.head_dim}, options).narrow(1, spare, heads);
    };
    const at::Tensor merged = rows(s.heads + 2 * s.kv_heads, 1), gradients = rows(s.heads + 2 * s.kv_heads, 2);
    q = merged.narrow(1, 0, s.heads), k = merged.narrow(1, s.heads, s.kv_heads), v = merged.narrow(1, s.heads + s.kv_heads, s.kv_heads);
    d_q = gradients.narrow(1, 0, s.heads), d_k = gradients.narrow(1, s.heads, s.kv_heads);
    d_v = gradients.narrow(1, s.heads + s.kv_heads, s.kv_heads);
    out = rows(s.heads, 3), d_out = rows(s.heads, 0);
    cu = at::empty({s.sequences() + 1}, options.dtype(at::kInt));
    lse = at::empty({s.heads, s.tokens()}, options.dtype(at::kFloat));
    workspace = at::empty({attention_backward_flash_workspace(backward())}, options.dtype(at::kByte));
  }

  template <class Args>
  Args inputs() const {
    const Shape& s = shape;
    Args a{.shape = {.type = s.type, .sequences = s.sequences(), .cu_seqlens = cu.const_data_ptr<int32_t>()}};
    a.shape.heads = s.heads, a.shape.kv_heads = s.kv_heads, a.shape.head_dim = s.head_dim;
    a.shape.scale = kScale, a.shape.tokens = s.tokens(), a.shape.longest = s.longest();
    if (s.multiprocessors > 0) a.shape.deterministic = true, a.shape.multiprocessors = s.multiprocessors;
    a.q = q.data_ptr(), a.k = k.data_ptr(), a.v = v.data_ptr(), a.out = out.data_ptr();
    a.q_stride = q.stride(0), a.k_stride = k.stride(0), a.v_stride = v.stride(0), a.out_stride = out.stride(0);
    a.lse = lse.data_ptr<float>();
    if (workspace.defined()) a.workspace = workspace.data_ptr();
    return a;
  }
  AttentionForward forward() const { return inputs<AttentionForward>(); }
  AttentionBackward backward() const {
    auto a = inputs<AttentionBackward>();
    a.d_out = d_out.data_ptr(), a.d_out_stride = d_out.stride(0);
    a.d_q = d_q.data_ptr(), a.d_k = d_k.data_ptr(), a.d_v = d_v.data_ptr();
    a.d_q_stride = d_q.stride(0), a.d_k_stride = d_k.stride(0), a.d_v_stride = d_v.stride(0);
    return a;
  }
};

std::map<const void*, size_t>& asked() {
  static std::map<const void*, size_t> bytes;
  return bytes;
}
// Records the requests to LibTorch's allocator.
void watch_allocator() {
  using namespace c10::cuda::CUDACachingAllocator;
  static const bool watched = [] {
    attachAllocatorTraceTracker([](const TraceEntry& e) {
      if (e.action_ == TraceEntry::ALLOC) asked()[reinterpret_cast<const void*>(e.addr_)] = e.size_;
    });
    return true;
  }();
  static_cast<void>(watched);
}

// The recorded launches, and the requests to LibTorch's allocator for them: bytes by address.
struct Recorded {
  std::vector<Launch> launches;
  std::map<const void*, size_t> allocations;
  std::vector<at::Tensor> results;
  size_t bytes_of(const void* pointer) const {
    const auto found = allocations.find(pointer);
    return found == allocations.end() ? 0 : found->second;
  }
};
template <class Work>
Recorded record(Work work) {
  watch_allocator();
  recording::take(), asked().clear();
  const std::vector<at::Tensor> results = work();
  return {recording::take(), asked(), results};
}

// Sets LibTorch's flag for its lifetime; memory is not filled for it.
struct Deterministic {
  explicit Deterministic(bool is) {
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    at::globalContext().setDeterministicAlgorithms(is, /*warn_only=*/false);
  }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

Recorded library_forward(const Operands& o) {
  return record([&] {
    const auto [out, lse, state, unused, mask] =
        at::_flash_attention_forward(o.q, o.k, o.v, o.cu, o.cu, o.shape.longest(), o.shape.longest(), 0, true, false, kScale);
    return std::vector<at::Tensor>{out, lse};
  });
}
Recorded library_backward(const Operands& o) {
  const at::Tensor unused = at::empty({2}, o.cu.options().dtype(at::kUInt64));
  const at::Tensor out = o.out.contiguous(), d_out = o.d_out.contiguous();  // else it would do so itself
  const Deterministic deterministic(o.shape.multiprocessors > 0);
  Recorded recorded = record([&] {
    const auto [d_q, d_k, d_v] = at::_flash_attention_backward(d_out, o.q, o.k, o.v, out, o.lse, o.cu, o.cu, o.shape.longest(),
                                                               o.shape.longest(), 0, true, unused, unused, kScale);
    return std::vector<at::Tensor>{d_q, d_k, d_v};
  });
  recorded.results.insert(recorded.results.end(), {out, d_out});
  return recorded;
}
Recorded own_forward(const AttentionForward& args, CudaStream stream) {
  return record([&] { return attention_forward_flash(args, stream), std::vector<at::Tensor>(); });
}
Recorded own_backward(const AttentionBackward& args, CudaStream stream) {
  group_sums.clear(), cleared.clear();
  return record([&] { return attention_backward_flash(args, stream), std::vector<at::Tensor>(); });
}

template <class From, class To>
void clear_between(From* member, To* next) {
  std::memset(reinterpret_cast<char*>(member + 1), 0, static_cast<size_t>(reinterpret_cast<char*>(next) - reinterpret_cast<char*>(member + 1)));
}

// Clears bytes that are never set: those between members, and the batch strides of gradients, which
// are not read for packed sequences.
void clear_gaps(Flash_fwd_params& p) {
  clear_between(&p.group, &p.out);
  clear_between(&p.keep_255, &p.inverse_keep);
  clear_between(&p.groups_swapped, &p + 1);
}
void clear_gaps(Flash_bwd_params& p) {
  clear_gaps(static_cast<Flash_fwd_params&>(p));
  clear_between(&p.deterministic, &p.d_q_sums_stride);
  p.d_out_batch_stride = 0, std::memset(p.d_batch_strides, 0, sizeof p.d_batch_strides);
}

// Replaces the addresses in a library's argument by the caller's own.
void replace_places(Flash_fwd_params& p, const AttentionForward& a) {
  p.out = a.out, p.out_row_stride = a.out_stride, p.lse = a.lse;
}
void replace_places(Flash_bwd_params& p, const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const FlashSpace space = flash_space(s);
  char* scratch = static_cast<char*>(a.workspace);
  const bool grouped = s.heads != s.kv_heads;
  p.out = const_cast<void*>(a.out), p.out_row_stride = a.out_stride;
  p.d_out = a.d_out, p.d_out_row_stride = a.d_out_stride;
  p.d_q = a.d_q, p.d_q_row_stride = a.d_q_stride;
  p.d_k = grouped ? scratch + space.d_k : a.d_k, p.d_v = grouped ? scratch + space.d_v : a.d_v;
  if (!grouped) p.d_k_row_stride = a.d_k_stride, p.d_v_row_stride = a.d_v_stride;
  p.d_q_sums = reinterpret_cast<float*>(scratch + space.d_q_sums), p.dots = reinterpret_cast<float*>(scratch + space.dots);
}

template <class Params>
Params argument_of(const Launch& launch) {
  Params p;
  REQUIRE(launch.argument.size() == sizeof p);
  std::memcpy(&p, launch.argument.data(), sizeof p);
  clear_gaps(p);
  return p;
}

// Checks the addresses that check_same() leaves out against flash_params.h, since there the library
// has its own results and scratch.
void check_places(const Recorded& library, const Shape& s) {
  const auto p = argument_of<Flash_fwd_params>(library.launches.at(0));
  const at::Tensor &out = library.results[0], &lse = library.results[1];
  CHECK((p.out == out.data_ptr() && p.out_row_stride == out.stride(0) && p.out_head_stride == out.stride(1)));
  CHECK((p.lse == lse.data_ptr() && lse.numel() == s.heads * s.tokens()));
}
void check_places_back(const Recorded& library, const Shape& s) {
  const auto p = argument_of<Flash_bwd_params>(library.launches.at(0));
  const at::Tensor &d_q = library.results[0], &d_k = library.results[1], &d_v = library.results[2];
  CHECK((p.d_q == d_q.data_ptr() && p.d_q_row_stride == d_q.stride(0) && p.d_q_head_stride == d_q.stride(1)));
  CHECK((p.out == library.results[3].data_ptr() && p.d_out == library.results[4].data_ptr()));
  const int64_t rows = s.tokens() + 128 * s.sequences();
  const int64_t grids = s.sequences() * s.heads, splits = s.multiprocessors > 0 ? (s.multiprocessors + grids - 1) / grids : 1;
  CHECK(library.bytes_of(p.d_q_sums) == static_cast<size_t>(4 * splits * rows * s.heads * flash_head_dim(s.head_dim)));
  CHECK(library.bytes_of(p.dots) == static_cast<size_t>(4 * rows * s.heads));
  if (s.heads == s.kv_heads) {
    CHECK((p.d_k == d_k.data_ptr() && p.d_k_row_stride == d_k.stride(0) && p.d_k_head_stride == d_k.stride(1)));
    CHECK((p.d_v == d_v.data_ptr() && p.d_v_row_stride == d_v.stride(0) && p.d_v_head_stride == d_v.stride(1)));
    CHECK(library.allocations.size() == 5);
    return;
  }
  for (void* expanded : {p.d_k, p.d_v}) CHECK(library.bytes_of(expanded) == static_cast<size_t>(2 * s.tokens() * s.heads * s.head_dim));
  CHECK(p.d_k != p.d_v);
  CHECK(library.allocations.size() == 7);
}

template <class Params>
std::string differences(const Params& a, const Params& b) {
  std::string places;
  for (size_t i = 0; i < sizeof a; ++i)
    if (reinterpret_cast<const char*>(&a)[i] != reinterpret_cast<const char*>(&b)[i]) places += " " + std::to_string(i);
  return places.empty() ? "" : "at bytes" + places;
}

std::string configuration(const Launch& l) {
  std::string text = l.kernel;
  for (const unsigned n : {l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2]}) text += " " + std::to_string(n);
  return text + " shared " + std::to_string(l.shared_bytes);
}

// Checks that `given` equals the library's launch, with the caller's addresses.
template <class Params, class Args>
void check_same(const Launch& library, const Launch& given, const Args& args, int card) {
  CHECK(configuration(given) == configuration(library));
  CHECK(given.stream == library.stream);
  CHECK(given.shared_bytes <= recording::shared_bytes(card));
  Params wanted = argument_of<Params>(library);
  replace_places(wanted, args);
  CHECK(differences(argument_of<Params>(given), wanted) == "");
}

// Returns a library's launches of flash attention's kernels.
std::vector<Launch> of_flash(std::vector<Launch> launches) {
  std::erase_if(launches, [](const Launch& l) { return !is_flash(l.kernel, "fwd") && !is_flash(l.kernel, "bwd"); });
  return launches;
}

// Runs on a stream of its own, like the engine.
struct OnCard {
  c10::NoGradGuard no_grad;
  c10::DeviceGuard device;
  CudaStream stream = reinterpret_cast<CudaStream>(uintptr_t{0x77770});
  c10::StreamGuard current;
  explicit OnCard(int card)
      : device(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(card))),
        current(c10::cuda::getStreamFromExternal(stream, static_cast<c10::DeviceIndex>(card))) {
    recording::set_argument_bytes(argument_bytes);
  }
  c10::Device here() const { return device.current_device(); }
};

bool taken(const Shape& s, int card) {
  return choose_attention({recording::kCapabilities[card], s.type, s.head_dim, s.heads, s.sequences(), s.tokens(), s.longest()}, true).kernel ==
         AttentionKernel::flash;
}

}  // namespace

TEST_CASE("flash attention is launched as LibTorch launches it") {
  const int card = GENERATE(range(0, recording::kCards));
  const Element type = GENERATE(Element::bf16, Element::f16);
  const std::pair<int64_t, int64_t> heads = GENERATE(std::pair<int64_t, int64_t>{4, 4}, std::pair<int64_t, int64_t>{6, 2});
  const std::vector<int64_t> lengths = GENERATE(std::vector<int64_t>{300}, std::vector<int64_t>{7, 130, 64, 2});
  OnCard on(card);
  int64_t compared = 0;
  for (int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
    const Shape s{type, heads.first, heads.second, head_dim, lengths};
    if (!taken(s, card)) continue;
    INFO("sm_" << recording::kCapabilities[card] << ", head_dim " << head_dim << ", " << s.heads << "/" << s.kv_heads << " heads");
    const Operands o(s, on.here());
    const bool grouped = s.heads != s.kv_heads;
    ++compared;

    const Recorded library = library_forward(o), own = own_forward(o.forward(), on.stream);
    REQUIRE(library.launches.size() == 1);
    REQUIRE(own.launches.size() == 1);
    check_places(library, s);
    check_same<Flash_fwd_params>(library.launches[0], own.launches[0], o.forward(), card);
    CHECK(own.allocations.empty());

    const Recorded back = library_backward(o), own_back = own_backward(o.backward(), on.stream);
    REQUIRE(own_back.launches.size() == 3);
    REQUIRE(back.launches.size() == (grouped ? 5 : 3));  // and two sums over groups
    check_places_back(back, s);
    for (size_t i = 0; i < 3; ++i) check_same<Flash_bwd_params>(back.launches[i], own_back.launches[i], o.backward(), card);
    CHECK(own_back.allocations.empty());

    REQUIRE(group_sums.size() == (grouped ? 1 : 0));
    if (!grouped) continue;
    const GroupSums& sums = group_sums[0];
    const AttentionBackward a = o.backward();
    const FlashSpace space = flash_space(a.shape);
    const char* scratch = static_cast<const char*>(a.workspace);
    CHECK((sums.type == type && sums.tokens == s.tokens() && sums.kv_heads == 2 && sums.group == 3 && sums.head_dim == head_dim));
    CHECK((sums.x[0] == scratch + space.d_k && sums.x[1] == scratch + space.d_v));
    CHECK((sums.y[0] == a.d_k && sums.y[1] == a.d_v && sums.y_stride[0] == a.d_k_stride && sums.y_stride[1] == a.d_v_stride));
  }
  CHECK(compared >= 28);
}

// If an operand is dense in another order than [tokens, heads, head_dim], the library gives its
// gradient the same order, so that each has strides of its own.
TEST_CASE("each operand and gradient has the strides that flash_params.h names") {
  OnCard on(1);
  const Shape s{Element::bf16, 4, 4, 64, {40, 3}};
  for (at::Tensor Operands::*turned : {&Operands::q, &Operands::k, &Operands::v}) {
    Operands o(s, on.here());
    o.*turned = at::empty({s.heads, s.tokens(), s.head_dim}, o.q.options()).transpose(0, 1);
    const Recorded back = library_backward(o);
    check_places_back(back, s);
    const auto p = argument_of<Flash_bwd_params>(back.launches.at(0));
    CHECK((p.q_row_stride == o.q.stride(0) && p.q_head_stride == o.q.stride(1)));
    CHECK((p.k_row_stride == o.k.stride(0) && p.k_head_stride == o.k.stride(1)));
    CHECK((p.v_row_stride == o.v.stride(0) && p.v_head_stride == o.v.stride(1)));
    CHECK((p.d_q_row_stride == s.head_dim) == (turned == &Operands::q));
    CHECK((p.d_k_row_stride == s.head_dim) == (turned == &Operands::k));
    CHECK((p.d_v_row_stride == s.head_dim) == (turned == &Operands::v));
  }
}

// Checks that a workspace's parts are in order, disjoint, and as large as the kernels assume.
TEST_CASE("the backward's scratch has room for a turn") {
  for (const int64_t tokens : {1, 100, 2048, 10000})
    for (const int64_t kv_heads : {2, 6}) {
      AttentionShape s{.type = Element::bf16, .heads = 6, .kv_heads = kv_heads, .head_dim = 80, .tokens = tokens};
      const FlashSpace space = flash_space(s);
      const int64_t rows = tokens + 128 * space.turn;
      CHECK(space.turn >= 8);
      CHECK(space.dots - space.d_q_sums >= 4 * rows * 6 * 96);
      const int64_t behind_dots = kv_heads == 6 ? space.bytes : space.d_k;
      CHECK(behind_dots - space.dots >= 4 * rows * 6);
      if (kv_heads == 6) continue;
      CHECK(space.d_v - space.d_k >= 2 * tokens * 6 * 80);
      CHECK(space.bytes - space.d_v >= 2 * tokens * 6 * 80);
    }
}

TEST_CASE("many sequences have their gradients in turns") {
  OnCard on(0);
  const Shape s{Element::bf16, 4, 4, 64, std::vector<int64_t>(20, 9)};
  const Operands o(s, on.here());
  const AttentionBackward args = o.backward();
  const int64_t turn = flash_space(args.shape).turn;
  REQUIRE(turn == 8);
  const Recorded library = library_backward(o);
  const Recorded own = own_backward(args, on.stream);
  REQUIRE(own.launches.size() == 9);
  for (size_t i = 0; i < own.launches.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i / 3) * turn, sequences = std::min(turn, s.sequences() - first);
    Launch wanted = library.launches[i % 3];
    REQUIRE(wanted.grid[1] == 20);
    wanted.grid[1] = static_cast<unsigned>(sequences);
    auto p = argument_of<Flash_bwd_params>(wanted);
    CHECK(p.sequences == 20);
    p.sequences = static_cast<int32_t>(sequences);
    p.cu_seqlens_q += first, p.cu_seqlens_k += first;
    std::memcpy(wanted.argument.data(), &p, sizeof p);
    check_same<Flash_bwd_params>(wanted, own.launches[i], args, 0);
  }
}

TEST_CASE("a deterministic backward is launched as LibTorch launches it") {
  const int card = GENERATE(range(0, recording::kCards));
  const std::pair<int64_t, int64_t> heads = GENERATE(std::pair<int64_t, int64_t>{4, 4}, std::pair<int64_t, int64_t>{48, 12});
  const std::vector<int64_t> lengths = GENERATE(std::vector<int64_t>{300}, std::vector<int64_t>{7, 130, 64, 2});
  OnCard on(card);
  for (const int64_t head_dim : {64, 80, 128, 256}) {
    Shape s{Element::bf16, heads.first, heads.second, head_dim, lengths};
    s.multiprocessors = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(card))->multiProcessorCount;
    INFO("sm_" << recording::kCapabilities[card] << ", head_dim " << head_dim << ", " << s.heads << " heads");
    const Operands o(s, on.here());
    Recorded library = library_backward(o);
    library.launches = of_flash(library.launches);  // without what clears the sums
    const Recorded own = own_backward(o.backward(), on.stream);
    REQUIRE((library.launches.size() == 3 && own.launches.size() == 3));
    check_places_back(library, s);
    for (size_t i = 0; i < 3; ++i)
      check_same<Flash_bwd_params>(library.launches[i], own.launches[i], o.backward(), card);
    const auto p = argument_of<Flash_bwd_params>(library.launches[0]);
    CHECK(p.deterministic);
    REQUIRE(cleared.size() == 1);
    CHECK(static_cast<size_t>(cleared[0].bytes) == library.bytes_of(p.d_q_sums));
    CHECK(cleared[0].sums == argument_of<Flash_bwd_params>(own.launches[0]).d_q_sums);
  }
}

TEST_CASE("each turn of a deterministic backward clears sums that the scratch has room for") {
  OnCard on(0);
  Shape s{Element::bf16, 4, 4, 64, std::vector<int64_t>(20, 9)};
  s.multiprocessors = 108;
  const Operands o(s, on.here());
  const AttentionBackward args = o.backward();
  const FlashSpace space = flash_space(args.shape);
  const Recorded own = own_backward(args, on.stream);
  REQUIRE((own.launches.size() == 9 && cleared.size() == 3));
  const int64_t splits[] = {4, 4, 7}, sequences[] = {8, 8, 4};  // of 108 multiprocessors, 4 heads
  for (size_t turn = 0; turn < 3; ++turn) {
    CHECK(own.launches[3 * turn + 1].grid[0] == splits[turn]);
    CHECK(cleared[turn].bytes == 4 * splits[turn] * (180 + 128 * sequences[turn]) * 4 * 64);
    CHECK(cleared[turn].bytes <= space.dots - space.d_q_sums);
  }
}

TEST_CASE("an evaluation's lse goes to the workspace") {
  OnCard on(2);
  const Operands o({Element::f16, 4, 2, 128, {33, 40}}, on.here());
  AttentionForward args = o.forward();
  CHECK(attention_forward_flash_workspace(args) == 0);
  args.lse = nullptr;
  CHECK(attention_forward_flash_workspace(args) == 4 * 4 * 73);
  const Recorded own = own_forward(args, on.stream);
  CHECK(argument_of<Flash_fwd_params>(own.launches.at(0)).lse == args.workspace);
}

TEST_CASE("flash attention takes rows that begin at 16 bytes") {
  OnCard on(0);
  const Operands o({Element::bf16, 2, 2, 64, {16}}, on.here());
  CHECK(flash_takes(o.forward()));
  CHECK(flash_takes(o.backward()));
  const auto moved = [](const void* x) { return const_cast<char*>(static_cast<const char*>(x)) + 2; };
  AttentionForward forward = o.forward();
  forward.out = moved(forward.out);
  CHECK_FALSE(flash_takes(forward));
  for (int64_t AttentionBackward::*stride :
       {&AttentionBackward::q_stride, &AttentionBackward::k_stride, &AttentionBackward::v_stride, &AttentionBackward::out_stride,
        &AttentionBackward::d_out_stride, &AttentionBackward::d_q_stride, &AttentionBackward::d_k_stride, &AttentionBackward::d_v_stride}) {
    AttentionBackward backward = o.backward();
    backward.*stride += 4;
    CHECK_FALSE(flash_takes(backward));
  }
  for (const void* AttentionBackward::*pointer : {&AttentionBackward::q, &AttentionBackward::k, &AttentionBackward::v, &AttentionBackward::out,
                                                  &AttentionBackward::d_out}) {
    AttentionBackward backward = o.backward();
    backward.*pointer = moved(backward.*pointer);
    CHECK_FALSE(flash_takes(backward));
  }
  for (void* AttentionBackward::*pointer : {&AttentionBackward::d_q, &AttentionBackward::d_k, &AttentionBackward::d_v}) {
    AttentionBackward backward = o.backward();
    backward.*pointer = moved(backward.*pointer);
    CHECK_FALSE(flash_takes(backward));
  }
  AttentionForward narrow = o.forward();
  narrow.shape.head_dim = 60;
  CHECK_FALSE(flash_takes(narrow));
}
