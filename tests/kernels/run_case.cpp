#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/lib/base/error.h"
#include "tests/kernels/case.h"

namespace forge::kernel_test {
namespace {

constexpr int64_t kGuard = 512;             // bytes before and after every operand
constexpr unsigned char kUntouched = 0xA5;  // guards and gaps
constexpr unsigned char kUnwritten = 0xFF;  // outputs and workspaces before the run: NaN in every float type

int64_t bytes_of(Store store) {
  switch (store) {
    case Store::i64:
      return 8;
    case Store::f32:
    case Store::i32:
      return 4;
    case Store::u8:
      return 1;
    default:
      return 2;
  }
}

bool is_float(Store store) { return store == Store::f32 || store == Store::bf16 || store == Store::f16; }

double unit(Store store) { return store == Store::bf16 ? 0x1p-8 : store == Store::f16 ? 0x1p-11 : 0x1p-24; }
double smallest(Store store) { return store == Store::f16 ? 0x1p-24 : 0x1p-133; }

// Rounds a value to the type, like the kernels' stores.
template <class T>
T narrow(double value) {
  T result;
  // Double rounding through fp32 is harmless for inputs: the oracle reads back what was stored.
  from_float(static_cast<float>(value), result);
  return result;
}

void put(Store store, unsigned char* to, double value, int64_t whole) {
  auto copy = [&](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (store) {
    case Store::f32:
      return copy(static_cast<float>(value));
    case Store::bf16:
      return copy(narrow<Bf16>(value));
    case Store::f16:
      return copy(narrow<F16>(value));
    case Store::i64:
      return copy(whole);
    case Store::i32:
      return copy(static_cast<int32_t>(whole));
    case Store::u8:
      return copy(static_cast<uint8_t>(whole));
  }
}

template <class T>
T take(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

double get(Store store, const unsigned char* from) {
  switch (store) {
    case Store::f32:
      return take<float>(from);
    case Store::bf16:
      return to_float(take<Bf16>(from));
    case Store::f16:
      return to_float(take<F16>(from));
    case Store::i64:
      return static_cast<double>(take<int64_t>(from));
    case Store::i32:
      return take<int32_t>(from);
    case Store::u8:
      return take<uint8_t>(from);
  }
  return 0;
}

// One operand's bytes with guards, on the host.
struct Image {
  const Operand* operand = nullptr;
  int64_t rows = 1, width = 1, stride = 1, element_bytes = 4, begin = 0, span = 0;  // begin, span in bytes
  std::vector<unsigned char> bytes, before;
  unsigned char* device = nullptr;

  unsigned char* at(int64_t row, int64_t column) {
    return bytes.data() + begin + (row * stride + column) * element_bytes;
  }
};

int64_t width_of(const Operand& operand) {
  at::IntArrayRef shape = operand.value.sizes();
  return shape.empty() ? 1 : shape.back();
}

Image make_image(const Operand& operand) {
  Image image;
  image.operand = &operand;
  image.width = width_of(operand);
  image.rows = image.width == 0 ? 0 : operand.value.numel() / image.width;
  image.stride = image.width + operand.row_gap;
  image.element_bytes = bytes_of(operand.store);
  image.begin = kGuard + operand.offset * image.element_bytes;
  image.span = image.rows == 0 ? 0 : ((image.rows - 1) * image.stride + image.width) * image.element_bytes;
  image.bytes.assign(static_cast<size_t>(image.begin + image.span + kGuard), kUntouched);
  at::Tensor flat = operand.value.contiguous();
  bool whole = flat.scalar_type() == at::kLong;
  const int64_t* integers = whole ? flat.const_data_ptr<int64_t>() : nullptr;
  const double* reals = whole ? nullptr : flat.const_data_ptr<double>();
  for (int64_t row = 0; row < image.rows; ++row)
    for (int64_t column = 0; column < image.width; ++column) {
      int64_t i = row * image.width + column;
      if (operand.role == Role::out)
        std::memset(image.at(row, column), kUnwritten, static_cast<size_t>(image.element_bytes));
      else if (whole)
        put(operand.store, image.at(row, column), 0, integers[i]);
      else
        put(operand.store, image.at(row, column), reals[i], 0);
    }
  image.before = image.bytes;
  return image;
}

// Returns the values of an image: float64, or int64 for whole numbers.
at::Tensor read_values(Image& image) {
  at::Tensor values = at::empty(image.operand->value.sizes(), at::kDouble);
  double* out = values.data_ptr<double>();
  for (int64_t row = 0; row < image.rows; ++row)
    for (int64_t column = 0; column < image.width; ++column)
      *out++ = get(image.operand->store, image.at(row, column));
  return is_float(image.operand->store) ? values : values.to(at::kLong);
}

std::string where(const Image& image, int64_t byte) {
  int64_t element = byte - image.begin;
  if (element < 0) return std::to_string(-element) + " bytes before its begin";
  if (element >= image.span) return std::to_string(element - image.span) + " bytes past its end";
  element /= image.element_bytes;
  return "row " + std::to_string(element / image.stride) + ", column " +
         std::to_string(element % image.stride);
}

// Reports changed bytes outside the rows, and changed inputs.
void check_untouched(Image& image, std::vector<std::string>& faults) {
  std::vector<unsigned char> may(image.bytes.size(), 0);
  if (image.operand->role != Role::in)
    for (int64_t row = 0; row < image.rows; ++row)
      std::memset(may.data() + (image.at(row, 0) - image.bytes.data()), 1,
                  static_cast<size_t>(image.width * image.element_bytes));
  for (size_t i = 0; i < image.bytes.size(); ++i)
    if (!may[i] && image.bytes[i] != image.before[i]) {
      faults.push_back(image.operand->name + " was written where it may not be, " +
                       where(image, static_cast<int64_t>(i)));
      return;
    }
}

bool close(double found, double expected, double allowed) {
  if (std::isnan(expected)) return std::isnan(found);
  if (allowed == 0) return found == expected && std::signbit(found) == std::signbit(expected);
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= allowed;
}

// Returns an exact result in the type: a value that is too large is infinite.
double in_type(Store store, double value) {
  if (store == Store::f16 && std::abs(value) >= 65520) return std::copysign(HUGE_VAL, value);
  if (store != Store::f16 && std::abs(value) > 3.39e38) return std::copysign(HUGE_VAL, value);
  return value;
}

// Compares the values. `between` is the unit of the type that the backend rounds to between steps,
// or 0.
void check_values(Image& image, const Tensors& expected, double between, std::vector<std::string>& faults) {
  const Operand& operand = *image.operand;
  at::Tensor wanted = expected.at(operand.name).to(at::kDouble).contiguous();
  auto sizes = [&](const char* which) {
    auto found = expected.find(operand.name + which);
    return found == expected.end() ? at::Tensor() : found->second.expand(wanted.sizes()).contiguous();
  };
  const at::Tensor size = sizes(".size"), rounded = sizes(".between");
  const double* size_of = size.defined() ? size.const_data_ptr<double>() : nullptr;
  const double* rounded_of = rounded.defined() ? rounded.const_data_ptr<double>() : nullptr;
  const bool exact = operand.tolerance.roundings == 0 && operand.tolerance.sums == 0;
  const double* want = wanted.const_data_ptr<double>();
  int64_t wrong = 0;
  double worst = 0;
  std::string first;
  for (int64_t row = 0; row < image.rows; ++row) {
    double row_size = 0;
    for (int64_t c = 0; c < image.width; ++c)
      if (std::isfinite(want[row * image.width + c]))
        row_size = std::max(row_size, std::abs(want[row * image.width + c]));
    for (int64_t c = 0; c < image.width; ++c) {
      int64_t i = row * image.width + c;
      double expect = exact ? want[i] : in_type(operand.store, want[i]),
             found = get(operand.store, image.at(row, c));
      double sums = size_of ? size_of[i] : row_size;
      double roundings = rounded_of ? rounded_of[i] : sums;
      double allowed = is_float(operand.store) && !exact
                           ? operand.tolerance.roundings * unit(operand.store) * std::abs(expect) +
                                 operand.tolerance.sums * 0x1p-24 * sums +
                                 operand.tolerance.between * between * roundings + smallest(operand.store)
                           : 0;
      if (close(found, expect, allowed)) continue;
      // At the limit of the type's range the last rounding decides.
      if (std::isinf(expect) != std::isinf(found) && std::abs(std::abs(want[i]) - 65520) < 64 &&
          operand.store == Store::f16)
        continue;
      double ratio = std::abs(found - expect) / allowed;
      if (wrong++ == 0 || ratio > worst)
        first = "row " + std::to_string(row) + ", column " + std::to_string(c) + ": " +
                std::to_string(found) + " instead of " + std::to_string(expect) + ", allowed " +
                std::to_string(allowed) + " (" + std::to_string(ratio) + " times)";
      worst = std::max(worst, ratio);
    }
  }
  if (wrong > 0)
    faults.push_back(operand.name + ": " + std::to_string(wrong) + " of " +
                     std::to_string(image.rows * image.width) + " values wrong; worst " + first +
                     "; tolerance: " + operand.tolerance.reason);
}

}  // namespace

Element element(Store store) {
  FORGE_CHECK(is_float(store), "a type of a kernel");
  return store == Store::f32 ? Element::f32 : store == Store::bf16 ? Element::bf16 : Element::f16;
}
const char* name_of(Store store) {
  const char* names[] = {"f32", "bf16", "f16", "i64", "i32", "u8"};
  return names[static_cast<int>(store)];
}

std::string name_of(const Streamed& types) {
  return std::string(name_of(types.type)) + (types.one() ? "" : std::string(" beside an ") + name_of(types.stream) + " stream");
}

Operand input(std::string name, Store store, at::Tensor value) {
  return {.name = std::move(name), .store = store, .role = Role::in, .value = std::move(value)};
}
Operand output(std::string name, Store store, at::IntArrayRef shape, Tolerance tolerance) {
  return {.name = std::move(name),
          .store = store,
          .role = Role::out,
          .value = at::empty(shape, at::kDouble),
          .tolerance = tolerance};
}
Operand in_out(std::string name, Store store, at::Tensor value, Tolerance tolerance) {
  return {.name = std::move(name),
          .store = store,
          .role = Role::in_out,
          .value = std::move(value),
          .tolerance = tolerance};
}
Operand laid(Operand operand, const Layout& layout) {
  operand.row_gap = layout.row_gap;
  operand.offset = layout.offset;
  operand.has_stride = true;
  return operand;
}

Store narrowest(const std::vector<Operand>& operands) {
  for (const Operand& operand : operands)
    if (operand.store == Store::bf16 || operand.store == Store::f16) return operand.store;
  return Store::f32;
}

namespace {

void place_over(const Case& c, Pointers& pointers) {
  for (const auto& [name, under] : c.placed_over)
    pointers.placed[name] = under.empty() ? Pointers::Placed{nullptr, 0} : pointers.placed.at(under);
}

}  // namespace

std::string Case::refusal(const Backend& backend) const {
  if (!backend.name().starts_with(only)) return "too large a case for it";
  // The backend reads only sizes, and which pointers are null or equal.
  Pointers pointers;
  uintptr_t nothing = 0;
  for (const Operand& operand : operands)
    pointers.placed[operand.name] = {reinterpret_cast<void*>(nothing += 256), width_of(operand) + operand.row_gap};
  place_over(*this, pointers);
  return refuses(backend, pointers);
}

Tensors expected_outputs(const Case& c) {
  Tensors inputs;
  for (const Operand& operand : c.operands) {
    if (operand.role == Role::out) continue;
    Image image = make_image(operand);
    inputs[operand.name] = read_values(image);
  }
  return c.oracle(inputs);
}

namespace {

struct Execution {
  std::vector<Image> images;  // of the operands, as the backend left them
  Operand scratch{.name = "workspace", .store = Store::u8, .role = Role::out};
  Image workspace;
  std::string fault;  // what the backend threw
};

void place(Image& image, Memory& memory, bool fenced) {
  int64_t bytes = static_cast<int64_t>(image.bytes.size());
  image.device = static_cast<unsigned char*>(memory.allocate(bytes, fenced ? kGuard : 0));
  memory.write(image.device, image.bytes.data(), bytes);
  memory.expose({image.operand->name, image.device + image.begin, image.span, image.operand->role != Role::in,
                 image.element_bytes});
}

void fetch(Image& image, Memory& memory) {
  if (image.device) memory.read(image.bytes.data(), image.device, static_cast<int64_t>(image.bytes.size()));
}

void execute(const Case& c, const Backend& backend, Execution& execution) {
  Memory& memory = backend.memory();
  Pointers pointers;
  for (const Operand& operand : c.operands) execution.images.push_back(make_image(operand));
  for (Image& image : execution.images) {
    place(image, memory, true);
    pointers.placed[image.operand->name] = {image.device + image.begin, image.stride};
  }
  place_over(c, pointers);
  Image& workspace = execution.workspace;
  pointers.new_workspace = [&](int64_t bytes) -> void* {
    if (bytes == 0) return nullptr;
    execution.scratch.value = at::empty({bytes}, at::kLong);
    workspace = make_image(execution.scratch);
    place(workspace, memory, false);
    return workspace.device + workspace.begin;
  };
  try {
    c.run(backend, pointers);
  } catch (const std::exception& error) {
    execution.fault = error.what();
  }
  fetch(workspace, memory);
  for (Image& image : execution.images) fetch(image, memory);
  memory.clear();
}

}  // namespace

namespace {

std::vector<unsigned char> bytes_of(const Execution& execution) {
  std::vector<unsigned char> bytes;
  for (const Image& image : execution.images)
    if (image.operand->role != Role::in) bytes.insert(bytes.end(), image.bytes.begin(), image.bytes.end());
  return bytes;
}

}  // namespace

std::vector<std::string> run_case(const Case& c, const Backend& backend, const Tensors& expected,
                                  std::vector<unsigned char>* bytes) {
  Execution execution;
  execute(c, backend, execution);
  if (bytes) *bytes = bytes_of(execution);
  std::vector<std::string> faults;
  if (!execution.fault.empty()) faults.push_back(execution.fault);
  if (execution.workspace.device) check_untouched(execution.workspace, faults);
  for (Image& image : execution.images) check_untouched(image, faults);
  const double between = c.rounds_between(backend) ? unit(c.between_type) : 0;
  const std::vector<std::string> without = c.without(backend);
  for (Image& image : execution.images) {
    if (image.operand->role == Role::in || !execution.fault.empty()) continue;
    if (std::find(without.begin(), without.end(), image.operand->name) == without.end())
      check_values(image, expected, between, faults);
    else if (image.bytes != image.before)
      faults.push_back(image.operand->name + " was written by a backend that says it does not");
  }
  return faults;
}

std::vector<unsigned char> output_bytes(const Case& c, const Backend& backend) {
  Execution execution;
  execute(c, backend, execution);
  return bytes_of(execution);
}

}  // namespace forge::kernel_test
