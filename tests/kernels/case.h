#pragma once
// A case: one set of inputs for one op, the expected outputs, and their tolerance. Kernels'
// <op>_cases.cpp make them; run_case() executes one on one backend.
//
//   void add_double_cases(std::vector<Case>& cases) {
//     for (Store type : kFloats)
//       cases.push_back(make_case<DoubleArgs>(
//           "double", "3x5",
//           {input("x", type, normal({3, 5}, 1)),
//            output("y", type, {3, 5}, {.roundings = 1, .reason = "one multiply"})},
//           [](const Tensors& in) { return Tensors{{"y", in.at("x") * 2}}; },
//           [=](Pointers& p) { return DoubleArgs{element(type), 3, 5, p["x"], p["y"]}; }));
//   }
//
// The oracle receives what the backend receives: values after rounding to their type, as float64
// (whole numbers as int64). It is composed ATen, so a backward's oracle is autograd of the
// forward's (gradients(), which also compares with finite differences).
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/common/element.h"
#include "tests/kernels/backend.h"

namespace forge::kernel_test {

enum class Store { f32, bf16, f16, i64, i32, u8 };
constexpr Store kFloats[] = {Store::f32, Store::bf16, Store::f16};
Element element(Store store);
const char* name_of(Store store);

// The type of an op's operands, and of the residual stream among them.
struct Streamed {
  Store type, stream;
  bool one() const { return type == stream; }
};
constexpr Streamed kStreamed[] = {{Store::f32, Store::f32}, {Store::bf16, Store::bf16}, {Store::f16, Store::f16}, {Store::f16, Store::f32}};
std::string name_of(const Streamed& types);  // "f16", "f16 beside an f32 stream"

// Without roundings and sums the comparison is bit for bit. Else |result − oracle| ≤ roundings ·
// u(type) · |oracle| + sums · 2⁻²⁴ · size + the type's smallest step, where u is half the type's
// epsilon and size is the largest |oracle| of the row, or the oracle's output "<name>.size": the
// sum of the magnitudes of the terms, where they cancel.
struct Tolerance {
  double roundings = 1;
  double sums = 4;
  const char* reason = "";
  // On a backend that rounds between steps: so many more units of `between_type`, times size, or
  // times the oracle's output "<name>.between": the sum of the magnitudes of the rounded values.
  double between = 0;
};

enum class Role { in, out, in_out };

struct Operand {
  std::string name;
  Store store = Store::f32;
  Role role = Role::in;
  at::Tensor value;         // inputs: float64 or int64; outputs: only its shape counts
  Tolerance tolerance;      // outputs
  // Elements between the rows (of the last dimension), which must stay untouched.
  int64_t row_gap = 0;
  int64_t offset = 0;       // elements that its begin is off a 256-byte boundary
  bool has_stride = false;  // its rows may have gaps: it was laid
};

Operand input(std::string name, Store store, at::Tensor value);
Operand output(std::string name, Store store, at::IntArrayRef shape, Tolerance tolerance);
Operand in_out(std::string name, Store store, at::Tensor value, Tolerance tolerance);
// The layout of operands in memory; every op with rows is tried in all three.
struct Layout {
  const char* name;
  int64_t row_gap, offset;
};
constexpr Layout kLayouts[] = {{"dense", 0, 0}, {"strided", 5, 0}, {"misaligned", 0, 1}};
constexpr Layout kDense = kLayouts[0];
// For rows of 61: each begins at 16 bytes and none ends there.
constexpr Layout kRagged{"ragged in aligned rows", 3, 0};
constexpr int64_t kPastGrid = 65535 + 3;  // rows: one more pass over a grid as high as it can be
constexpr int64_t kPastBlocks = 33001;     // columns: more blocks of 256 than a byte counts, and no whole vectors
constexpr int64_t kWideGap = 8;           // elements that are a multiple of 16 bytes in every float type
Operand laid(Operand operand, const Layout& layout);

using Tensors = std::map<std::string, at::Tensor>;

// Pointers to the operands' first elements, in the backend's memory.
class Pointers {
 public:
  struct Placed {
    void* pointer;
    int64_t stride;  // elements from row to row
  };
  // An argument of any pointer type.
  struct Any {
    void* pointer;
    template <class T>
    operator T*() const {
      return static_cast<T*>(pointer);
    }
  };
  Any operator[](const std::string& name) const { return {placed.at(name).pointer}; }
  int64_t stride(const std::string& name) const { return placed.at(name).stride; }

  std::map<std::string, Placed> placed;
  std::function<void*(int64_t bytes)> new_workspace;
};

struct Case {
  std::string op, name;
  std::vector<Operand> operands;
  std::function<Tensors(const Tensors&)> oracle;
  std::function<std::string(const Backend&, Pointers&)> refuses;
  std::function<bool(const Backend&)> rounds_between;
  std::function<std::vector<std::string>(const Backend&)> without;  // outputs that it does not give
  std::function<void(const Backend&, Pointers&)> run;
  Store between_type = Store::f32;  // for Tolerance::between: the operands' 16-bit type, if they have one
  bool ordered =
      true;  // a GPU gives the same bits in every order of its warps: false where atomics add floats
  // Names that the arguments use and that are not operands: the operand that each overlays, or ""
  // for a null pointer.
  std::map<std::string, std::string> placed_over;
  std::string only;  // backends whose name begins so; the others refuse it as too large

  std::string refusal(const Backend& backend) const;  // why the backend cannot run it; "" when it can
  bool supported(const Backend& backend) const { return refusal(backend).empty(); }
};

Store narrowest(const std::vector<Operand>& operands);

template <class Args>
Case make_case(std::string op, std::string name, std::vector<Operand> operands,
               std::function<Tensors(const Tensors&)> oracle, std::function<Args(Pointers&)> arguments) {
  auto run = [arguments](const Backend& backend, Pointers& pointers) {
    Args args = arguments(pointers);
    if constexpr (requires { args.workspace; })
      args.workspace = pointers.new_workspace(backend.workspace_bytes(args));
    backend.run(args);
  };
  auto refuses = [arguments](const Backend& backend, Pointers& pointers) {
    return backend.refusal(arguments(pointers));
  };
  const Store between_type = narrowest(operands);
  return {std::move(op),
          std::move(name),
          std::move(operands),
          std::move(oracle),
          refuses,
          [](const Backend& backend) { return backend.rounds_between<Args>(); },
          [](const Backend& backend) { return backend.without<Args>(); },
          run,
          between_type};
}

// Puts the output over an input of its type and shape, in the input's layout.
Case over(Case c, const std::string& output, const std::string& input);
// Sets the output's pointer to null.
Case not_wanted(Case c, const std::string& output);
// Adds variants: each operand alone is misaligned and, where it has a stride, alone has gaps; and
// all have different gaps that keep 16 bytes. A fault of one operand is thus not hidden by the
// others.
void add_alone(std::vector<Case>& cases, const Case& c);

// Returns the case's outputs from the oracle, float64; they are the same for every backend.
Tensors expected_outputs(const Case& c);
// Returns faults, one line each; none when the backend is right: values, untouched guards and gaps,
// unchanged inputs, every output written. `bytes` gets the outputs as they are in memory, with gaps
// and guards, for comparisons of runs.
std::vector<std::string> run_case(const Case& c, const Backend& backend, const Tensors& expected,
                                  std::vector<unsigned char>* bytes = nullptr);
// Returns the outputs as they are in memory. They must be the same bit for bit from run to run.
std::vector<unsigned char> output_bytes(const Case& c, const Backend& backend);

// Return inputs of a given shape, float64, the same on every machine.
at::Tensor normal(at::IntArrayRef shape, uint64_t seed, double scale = 1);
at::Tensor uniform_values(at::IntArrayRef shape, uint64_t seed, double low, double high);
// Returns rows of very large, very small, equal and alternating values and zeros, inside every
// type's range.
at::Tensor extreme(at::IntArrayRef shape, uint64_t seed);

// A forward in float64: named inputs → named outputs.
using Forward = std::function<Tensors(const Tensors&)>;
// Returns d Σ cotangents · outputs / d inputs[name], by autograd, checked along one random
// direction against central differences; throws when they differ. Cotangents are named like the
// outputs.
Tensors gradients(const Forward& forward, const Tensors& inputs, const std::vector<std::string>& names,
                  const Tensors& cotangents);

// Returns every op's cases: one function per op, listed in cases.cpp.
std::vector<Case> all_cases();

}  // namespace forge::kernel_test
