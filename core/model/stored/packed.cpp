#include "core/model/stored/packed.h"

#include <algorithm>
#include <cstring>

#include "core/lib/base/text.h"
#include "core/model/stored/grid.h"

namespace forge {
namespace {

constexpr std::string_view kQuantised = ".qweight", kPacked = ".weight_packed";

// A line of words in memory.
struct Words {
  const char* first;
  int64_t stride = 1;  // words from one to the next

  // Returns code number `i` of `bits` bits.
  uint32_t code(int64_t i, int64_t bits) const {
    const int64_t at = i * bits, shift = at % 32;
    uint64_t both = word(at / 32);
    if (shift + bits > 32) both |= static_cast<uint64_t>(word(at / 32 + 1)) << 32;
    return static_cast<uint32_t>(both >> shift) & ((1u << bits) - 1);
  }
  uint32_t word(int64_t number) const {
    uint32_t value = 0;
    std::memcpy(&value, first + 4 * number * stride, 4);
    return value;
  }
};

// Indices of a matrix's tensors in its file, and its sizes.
struct Places {
  size_t codes = 0, scales = 0;
  std::optional<size_t> zeros, order;
  int64_t out = 0, in = 0, bits = 4, groups = 1, group = 0;
  DType rounded = DType::f16;
  bool plus_one = false;
};

// Returns the group of each input.
std::vector<int64_t> groups_of(const TensorFile& file, const Places& p) {
  if (p.order) return integers_of(file, *p.order);
  std::vector<int64_t> groups(static_cast<size_t>(p.in));
  for (int64_t k = 0; k < p.in; ++k) groups[static_cast<size_t>(k)] = k / p.group;
  return groups;
}

// Outputs that are decoded together, whose words are in one line of the cache.
constexpr int64_t kTile = 16;

// A matrix whose file has inputs in rows. `Layout` says where a code is and where a zero point.
template <class Layout>
class ByInputs : public StoredMatrix {
 public:
  explicit ByInputs(const Places& places) : p_(places) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    const std::vector<int64_t> groups = groups_of(file, p_);
    const std::vector<float> scales = values_of(file, p_.scales);
    const char *codes = file.bytes(p_.codes).data(), *zeros = file.bytes(*p_.zeros).data();
    std::vector<float> zero(static_cast<size_t>(p_.groups * kTile));
    for (int64_t first = 0; first < count; first += kTile) {
      const int64_t width = std::min(kTile, count - first), output = begin + first;
      for (int64_t at = 0; at < p_.groups * width; ++at)
        zero[static_cast<size_t>(at)] =
            static_cast<float>(Layout::zero(zeros, p_, at / width, output + at % width));
      for (int64_t k = 0; k < p_.in; ++k) {
        const int64_t group = groups[static_cast<size_t>(k)];
        const float* scale = scales.data() + group * p_.out + output;
        for (int64_t j = 0; j < width; ++j)
          values[(first + j) * p_.in + k] =
              scale[j] * (static_cast<float>(Layout::code(codes, p_, k, output + j)) -
                          zero[static_cast<size_t>(group * width + j)]);
      }
    }
    round_to(p_.rounded, count * p_.in, values);
  }

 private:
  Places p_;
};

struct Gptq {
  static uint32_t code(const char* codes, const Places& p, int64_t input, int64_t output) {
    return Words{codes + 4 * output, p.out}.code(input, p.bits);
  }
  static uint32_t zero(const char* zeros, const Places& p, int64_t group, int64_t output) {
    const Words line{zeros + 4 * group * (p.out * p.bits / 32)};
    return line.code(output, p.bits) + (p.plus_one ? 1 : 0);
  }
};

struct Awq {
  static uint32_t code(const char* codes, const Places& p, int64_t input, int64_t output) {
    constexpr int64_t kPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return Words{codes + 4 * (input * (p.out / 8) + output / 8)}.code(kPlace[output % 8], 4);
  }
  static uint32_t zero(const char* zeros, const Places& p, int64_t group, int64_t output) {
    return code(zeros, p, group, output);
  }
};

class PackedRows : public StoredMatrix {
 public:
  PackedRows(const Places& places, const Grid& scales) : p_(places), scales_(scales) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    const std::vector<int64_t> groups = p_.order ? groups_of(file, p_) : std::vector<int64_t>();
    const GridRows scales(file, scales_, begin, count, p_.in);
    const int64_t words = parts_of(p_.in * p_.bits, 32), half = int64_t{1} << (p_.bits - 1);
    for (int64_t row = begin; row < begin + count; ++row) {
      const Words line{file.bytes(p_.codes).data() + 4 * row * words};
      float* out = values + (row - begin) * p_.in;
      for (int64_t k = 0; k < p_.in; ++k) {
        const int64_t group = p_.order ? groups[static_cast<size_t>(k)] : k / scales_.columns;
        const int64_t zero = p_.zeros ? zero_at(file, row, group) : half;
        const int64_t code = static_cast<int64_t>(line.code(k, p_.bits)) - zero;
        out[k] = static_cast<float>(code) * scales.at(row, group * scales_.columns);
      }
    }
    round_to(p_.rounded, count * p_.in, values);
  }

 private:
  int64_t zero_at(const TensorFile& file, int64_t row, int64_t group) const {
    return Words{file.bytes(*p_.zeros).data() + 4 * group, p_.groups}.code(row, p_.bits);
  }

  Places p_;
  Grid scales_;
};

// Checks that the tensor of inputs' groups fits; a tensor of -1 says that they are in order.
void check_order(StoredSearch& search, Places& p) {
  if (!p.order || !expect(search, *p.order, {DType::i32, DType::i64}, {p.in})) return;
  const std::vector<int64_t> groups = integers_of(search.file, *p.order);
  if (std::find(groups.begin(), groups.end(), -1) != groups.end()) {
    p.order.reset();
    return;
  }
  for (const int64_t group : groups)
    if (group < 0 || group >= p.groups)
      return search.fault("tensor " + search.at(*p.order).name + " names group " +
                          std::to_string(group) + " of " + std::to_string(p.groups));
}

// Returns the stem's parts that GPTQ and AWQ share. Nothing after a fault.
std::optional<Places> parts_of_stem(StoredSearch& search, size_t codes, const std::string& stem) {
  Places p{.codes = codes};
  const std::optional<size_t> scales = search.part(stem, ".scales");
  p.zeros = search.part(stem, ".qzeros");
  if (!scales || !p.zeros) {
    search.fault(
        "tensor " + search.at(codes).name + " holds codes without " +
        (scales ? "their zero points, " + stem + ".qzeros" : "their scales, " + stem + ".scales"));
    return {};
  }
  p.scales = *scales;
  const bool typed = expect(search, codes, {DType::i32}, {}) &&
                     expect(search, p.scales, {DType::f16, DType::bf16, DType::f32}, {}) &&
                     expect(search, *p.zeros, {DType::i32}, {});
  if (!typed) return {};
  if (search.at(codes).shape.size() == 2 && search.at(p.scales).shape.size() == 2) {
    p.rounded = search.at(p.scales).dtype;
    p.groups = search.at(p.scales).shape[0];
    return p;
  }
  search.fault("tensor " + search.at(codes).name + " " + format_shape(search.at(codes).shape) +
               " and its scales are not matrices");
  return {};
}

// Sets the inputs of a group as config.json says, and checks the number of groups.
bool set_group(StoredSearch& search, Places& p, const std::string& stem) {
  const int64_t size = search.scheme.group;
  p.group = size > 0 ? size : p.in;
  if (p.in > 0 && p.groups == parts_of(p.in, p.group)) return true;
  search.fault("tensor " + stem + ".scales has " + std::to_string(p.groups) + " groups, expected " +
               std::to_string(p.in > 0 ? parts_of(p.in, p.group) : 0) + " of " +
               std::to_string(p.group) + " of " + std::to_string(p.in) + " inputs");
  return false;
}

template <class Layout>
void show(StoredSearch& search, const Places& p, const std::string& stem) {
  search.add(p.codes,
             {{stem + ".weight", {p.out, p.in}, p.rounded}, std::make_shared<ByInputs<Layout>>(p)});
}

void lacks_order(StoredSearch& search, size_t codes, const std::string& order) {
  search.fault("tensor " + search.at(codes).name +
               " holds codes without the groups of its inputs, " + order +
               ", which config.json says are in an order of their own");
}

void add_gptq(StoredSearch& search, size_t codes, const std::string& stem) {
  std::optional<Places> p = parts_of_stem(search, codes, stem);
  const std::optional<size_t> order = search.part(stem, ".g_idx");
  if (!p) return;
  p->order = order;
  if (!p->order && search.scheme.ordered) return lacks_order(search, codes, stem + ".g_idx");
  p->bits = search.scheme.bits, p->plus_one = search.scheme.zeros_plus_one;
  const std::vector<int64_t>& shape = search.at(codes).shape;
  p->out = shape[1], p->in = shape[0] * 32 / p->bits;
  if (shape[0] * 32 % p->bits != 0 || p->out * p->bits % 32 != 0)
    return search.fault("tensor " + search.at(codes).name + " " + format_shape(shape) +
                        " does not hold whole codes of " + std::to_string(p->bits) + " bits");
  const bool fits = set_group(search, *p, stem) &&
                    expect(search, p->scales, {p->rounded}, {p->groups, p->out}) &&
                    expect(search, *p->zeros, {DType::i32}, {p->groups, p->out * p->bits / 32});
  if (!fits) return;
  check_order(search, *p);
  show<Gptq>(search, *p, stem);
}

void add_awq(StoredSearch& search, size_t codes, const std::string& stem) {
  std::optional<Places> p = parts_of_stem(search, codes, stem);
  if (!p) return;
  const std::vector<int64_t>& shape = search.at(codes).shape;
  p->in = shape[0], p->out = shape[1] * 8;
  const bool fits = set_group(search, *p, stem) &&
                    expect(search, p->scales, {p->rounded}, {p->groups, p->out}) &&
                    expect(search, *p->zeros, {DType::i32}, {p->groups, shape[1]});
  if (fits) show<Awq>(search, *p, stem);
}

// Sets the sizes of a packed matrix and the bits of its codes. `bits`: as config.json states them,
// or nothing. False after a fault.
bool set_sizes(StoredSearch& search, Places& p, size_t shape, std::optional<int64_t> bits) {
  const TensorInfo& codes = search.at(p.codes);
  constexpr int64_t kMostInputs = int64_t{1} << 40;
  if (!expect(search, p.codes, {DType::i32}, {}) ||
      !expect(search, shape, {DType::i64, DType::i32}, {2}))
    return false;
  const std::vector<int64_t> sizes = integers_of(search.file, shape);
  p.out = sizes[0], p.in = sizes[1], p.bits = 0;
  if (codes.shape.size() == 2 && codes.shape[0] == p.out && p.in > 0 && p.in < kMostInputs)
    for (int64_t of = 1; of <= 8; ++of)
      if (parts_of(p.in * of, 32) == codes.shape[1] && of == bits.value_or(of)) p.bits = of;
  if (p.bits > 0) return true;
  search.fault("tensor " + codes.name + " " + format_shape(codes.shape) + " does not hold " +
               format_shape(sizes) + " (" + search.at(shape).name + ") in codes of " +
               (bits ? std::to_string(*bits) : "1 to 8") + " bits");
  return false;
}

void add_packed_rows(StoredSearch& search, size_t codes, const std::string& stem) {
  Places p{.codes = codes};
  const std::optional<size_t> shape = search.part(stem, ".weight_shape"),
                              scales = search.part(stem, ".weight_scale");
  p.zeros = search.part(stem, ".weight_zero_point");
  p.order = search.part(stem, ".weight_g_idx");
  if (!shape || !scales)
    return search.fault("tensor " + search.at(codes).name + " holds codes without " +
                        (scales ? "their sizes, " + stem + ".weight_shape"
                                : "their scales, " + stem + ".weight_scale"));
  const std::optional<StoredGroup> group = search.group_of(stem);
  if (group && !group->symmetric && !p.zeros)
    return search.fault("tensor " + search.at(codes).name +
                        " holds codes without their zero points, " + stem + ".weight_zero_point");
  if (group && group->ordered && !p.order)
    return lacks_order(search, codes, stem + ".weight_g_idx");
  p.scales = *scales;
  if (!expect(search, p.scales, {DType::bf16, DType::f16, DType::f32}, {}) ||
      !set_sizes(search, p, *shape, group ? std::optional(group->bits) : std::nullopt))
    return;
  const std::optional<Grid> grid =
      grid_of(search, p.scales, p.out, p.in, {}, group ? group->group : 0);
  if (!grid)
    return search.fault(stem + ".weight_scale: " + format_shape(search.at(p.scales).shape) +
                        " are not scales of " + format_shape({p.out, p.in}));
  p.rounded = search.at(p.scales).dtype;
  p.groups = parts_of(p.in, grid->columns);
  if (p.zeros && !expect(search, *p.zeros, {DType::i32}, {parts_of(p.out * p.bits, 32), p.groups}))
    return;
  check_order(search, p);
  search.add(codes, {{stem + ".weight", {p.out, p.in}, p.rounded},
                     std::make_shared<PackedRows>(p, *grid)});
}

using Add = void (*)(StoredSearch& search, size_t codes, const std::string& stem);

void add_each(StoredSearch& search, std::string_view ending, Add add) {
  for (size_t i = 0; i < search.file.tensors().size(); ++i)
    if (const std::string& name = search.at(i).name; search.plain(i) && ends_with(name, ending))
      add(search, i, name.substr(0, name.size() - ending.size()));
}

// Adds a fault for each tensor that belongs to codes that are not there.
void refuse_alone(StoredSearch& search) {
  for (const std::string_view ending : {".scales", ".qzeros", ".g_idx"})
    for (size_t i = 0; i < search.file.tensors().size(); ++i) {
      const std::string& name = search.at(i).name;
      if (search.plain(i) && ends_with(name, ending))
        search.fault("tensor " + name + " belongs to " +
                     name.substr(0, name.size() - ending.size()) + ".qweight, which is missing");
    }
}

}  // namespace

void find_gptq(StoredSearch& search) {
  add_each(search, kQuantised, add_gptq);
  refuse_alone(search);
}

void find_awq(StoredSearch& search) {
  add_each(search, kQuantised, add_awq);
  refuse_alone(search);
}

void find_packed_rows(StoredSearch& search) { add_each(search, kPacked, add_packed_rows); }

}  // namespace forge
