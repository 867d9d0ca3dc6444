#include "core/model/stored/bitsandbytes.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "kernels/quantize/books.h"

namespace forge {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__", kWeight = ".weight";
constexpr int64_t kMostBlock = 1 << 16;
constexpr int64_t kMostSize = int64_t{1} << 31;  // of a dimension

// The part of a state that is JSON.
struct State {
  std::string type;
  int64_t block = 0, nested_block = 0;
  double nested_mean = 0;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t count() const { return shape[0] * shape[1]; }
  int64_t blocks() const { return parts_of(count(), block); }
};

// Indices of a matrix's tensors in its file.
struct Places {
  size_t codes = 0, absmax = 0;
  std::optional<size_t> nested_absmax, nested_map;
};

class FourBits : public StoredMatrix {
 public:
  FourBits(State state, const Places& places) : state_(std::move(state)), places_(places) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    const int64_t columns = state_.shape[1], first = begin * columns,
                  end = (begin + count) * columns;
    const int64_t first_block = first / state_.block;
    const std::vector<float> absmax =
        absmax_of(file, first_block, parts_of(end, state_.block) - first_block);
    const FourBitBook& book = state_.type == "nf4" ? kNf4Book : kFp4Book;
    const auto* codes = reinterpret_cast<const uint8_t*>(file.bytes(places_.codes).data());
    for (int64_t i = first; i < end; ++i) {
      const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      values[i - first] = book[static_cast<size_t>(code)] *
                          absmax[static_cast<size_t>(i / state_.block - first_block)];
    }
    round_to(state_.dtype, end - first, values);
  }

  std::optional<BookBlocks> book_blocks(const TensorFile& file) const override {
    BookBlocks blocks{
        .nf4 = state_.type == "nf4", .block = state_.block, .codes = file.bytes(places_.codes)};
    blocks.codes = blocks.codes.substr(0, static_cast<size_t>(parts_of(state_.count(), 2)));
    blocks.absmax = absmax_of(file, 0, state_.blocks());
    if (!places_.nested_absmax) return blocks;
    blocks.nested_codes = file.bytes(places_.absmax);
    blocks.nested_block = state_.nested_block;
    blocks.nested_map = values_of(file, *places_.nested_map);
    blocks.nested_scale = values_of(file, *places_.nested_absmax);
    blocks.nested_mean = static_cast<float>(state_.nested_mean);
    return blocks;
  }

 private:
  // Returns the absmax of blocks [begin, begin + count). A nested one is a product, rounded, and a
  // sum.
  std::vector<float> absmax_of(const TensorFile& file, int64_t begin, int64_t count) const {
    std::vector<float> absmax(static_cast<size_t>(count));
    if (!places_.nested_absmax) {
      file.read_rows_f32(places_.absmax, begin, count, absmax.data());
      return absmax;
    }
    const auto* codes = reinterpret_cast<const uint8_t*>(file.bytes(places_.absmax).data());
    const std::vector<float> map = values_of(file, *places_.nested_map);
    const std::vector<float> scales = values_of(file, *places_.nested_absmax);
    const auto mean = static_cast<float>(state_.nested_mean);
    for (int64_t i = 0; i < count; ++i) {
      const float scaled =
          map[codes[begin + i]] * scales[static_cast<size_t>((begin + i) / state_.nested_block)];
      absmax[static_cast<size_t>(i)] = scaled + mean;
    }
    return absmax;
  }

  State state_;
  Places places_;
};

// The vector-wise int8 of LLM.int8(): a scale for each row.
class EightBits : public StoredMatrix {
 public:
  EightBits(size_t codes, size_t scales) : codes_(codes), scales_(scales) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    constexpr float kStep = 7.874015718698502e-3f;  // 1/127, as bitsandbytes writes it
    file.read_rows_f32(codes_, begin, count, values);
    std::vector<float> scales(static_cast<size_t>(count));
    file.read_rows_f32(scales_, begin, count, scales.data());
    const int64_t columns = file.tensors()[codes_].shape[1];
    for (int64_t i = 0; i < count * columns; ++i) {
      const float scaled = values[i] * scales[static_cast<size_t>(i / columns)];
      values[i] = scaled * kStep;
    }
  }

 private:
  size_t codes_, scales_;
};

std::optional<DType> dtype_named(const std::string& name) {
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  if (name == "float32") return DType::f32;
  return {};
}

// Returns an integer member in [lowest, highest], or throws Error(environment).
int64_t integer_in(const Json& json, const char* key, int64_t lowest, int64_t highest,
                   const std::string& name) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_number_integer() && *found >= lowest && *found <= highest)
    return found->get<int64_t>();
  throw Error(ErrorKind::environment, name + ": " + key + " is " +
                                          (found == json.end() ? "missing" : dump_json(*found)) +
                                          ", expected an integer from " + std::to_string(lowest) +
                                          " to " + std::to_string(highest));
}

std::vector<int64_t> shape_in(const Json& json, const std::string& name) {
  const Json shape = json.value("shape", Json());
  std::vector<int64_t> sizes;
  for (const Json& size : shape.is_array() ? shape : Json::array())
    if (size.is_number_integer() && size > 0 && size < kMostSize)
      sizes.push_back(size.get<int64_t>());
  if (sizes.size() == 2 && shape.size() == 2) return sizes;
  throw Error(ErrorKind::environment, name + ": shape is " + dump_json(shape).substr(0, 60) +
                                          ", expected the two sizes of a matrix");
}

// Reads the JSON of a state. `type` is what the tensor's name says.
State read_state(const TensorFile& file, size_t index, const std::string& type, bool nested) {
  const std::string name = "tensor " + file.tensors()[index].name;
  const Json json = parse_json(file.bytes(index), name, ErrorKind::environment, {8, 1000});
  if (!json.is_object())
    throw Error(ErrorKind::environment, name + ": is not a JSON object, the state of a matrix");
  const auto text = [&](const char* key) {
    const Json value = json.value(key, Json());
    return value.is_string() ? value.get<std::string>() : "";
  };
  State state{.type = type};
  if (text("quant_type") != type)
    throw Error(ErrorKind::environment, name + ": quant_type is " + show_name(text("quant_type")) +
                                            ", but the tensor's name says " + type);
  state.block = integer_in(json, "blocksize", 2, kMostBlock, name);
  state.shape = shape_in(json, name);
  const std::optional<DType> dtype = dtype_named(text("dtype"));
  if (!dtype)
    throw Error(ErrorKind::environment, name + ": dtype is " + show_name(text("dtype")) +
                                            ", expected bfloat16, float16 or float32");
  state.dtype = *dtype;
  if (!nested) return state;
  state.nested_block = integer_in(json, "nested_blocksize", 1, kMostBlock, name);
  const Json mean = json.value("nested_offset", Json());
  if (!mean.is_number() || !std::isfinite(mean.get<double>()))
    throw Error(ErrorKind::environment, name + ": nested_offset is " +
                                            dump_json(mean).substr(0, 60) + ", expected a number");
  state.nested_mean = mean;
  return state;
}

bool same_book(const std::vector<float>& map, const FourBitBook& book) {
  constexpr float kRounding = 1e-6f;
  return std::equal(map.begin(), map.end(), book.begin(), book.end(),
                    [](float a, float b) { return std::fabs(a - b) <= kRounding; });
}

// Checks the tensors of a matrix against its state.
void check(StoredSearch& search, const std::string& name, const State& state, const Places& places,
           size_t map) {
  const TensorInfo& codes = search.at(places.codes);
  const int64_t bytes = bytes_of(codes.dtype, codes.count()), wanted = parts_of(state.count(), 2);
  if (is_quantized(codes.dtype) || bytes < wanted || bytes >= wanted + block_bytes(codes.dtype))
    search.fault("tensor " + name + " has " + format_count(bytes) + " bytes of codes, expected " +
                 format_count(wanted) + " for " + format_shape(state.shape));
  const DType absmax = places.nested_absmax ? DType::u8 : DType::f32;
  expect(search, places.absmax, {absmax}, {state.blocks()});
  if (places.nested_absmax) {
    expect(search, *places.nested_absmax, {DType::f32},
           {parts_of(state.blocks(), state.nested_block)});
    expect(search, *places.nested_map, {DType::f32}, {256});
  }
  if (expect(search, map, {DType::f32}, {16}) &&
      !same_book(values_of(search.file, map), state.type == "nf4" ? kNf4Book : kFp4Book))
    search.fault("tensor " + search.at(map).name + " is not the map of " + state.type);
}

void add_four_bits(StoredSearch& search, size_t state_index) {
  const std::string& full = search.at(state_index).name;
  const size_t at = full.rfind(kState);
  const std::string name = full.substr(0, at), type = full.substr(at + kState.size());
  search.hide(state_index);
  if (type != "nf4" && type != "fp4")
    return search.fault("tensor " + full + " is the state of " + show_name(type) +
                        ", expected nf4 or fp4");
  const std::optional<size_t> codes = search.find(name), absmax = search.part(name, ".absmax"),
                              map = search.part(name, ".quant_map");
  const std::optional<size_t> nested = search.part(name, ".nested_absmax"),
                              nested_map = search.part(name, ".nested_quant_map");
  std::vector<std::string> missing;
  if (!codes) missing.push_back(name);
  if (!absmax) missing.push_back(name + ".absmax");
  if (!map) missing.push_back(name + ".quant_map");
  if (absmax && search.at(*absmax).dtype == DType::u8 && !nested)
    missing.push_back(name + ".nested_absmax");
  if (nested && !nested_map) missing.push_back(name + ".nested_quant_map");
  if (!missing.empty())
    return search.fault("tensor " + full + " is the state of a matrix of which " +
                        join(missing, ", ") +
                        (missing.size() == 1 ? " is missing" : " are missing"));
  State state;
  try {
    state = read_state(search.file, state_index, type, nested.has_value());
  } catch (const Error& error) {
    return search.fault(error.what());
  }
  const Places places{*codes, *absmax, nested, nested_map};
  if (!search.plain(*codes)) return search.fault("tensor " + name + " has two states");
  check(search, name, state, places, *map);
  search.add(*codes, {{name, state.shape, state.dtype}, std::make_shared<FourBits>(state, places)});
}

void add_eight_bits(StoredSearch& search, size_t scales) {
  constexpr std::string_view kRows = ".SCB";
  const std::string& full = search.at(scales).name;
  const std::string stem = full.substr(0, full.size() - kRows.size());
  search.hide(scales);
  const std::optional<size_t> codes = search.find(stem + std::string(kWeight));
  if (!codes)
    return search.fault("tensor " + full + " holds the scales of " + stem +
                        ".weight, which is missing");
  const TensorInfo& weight = search.at(*codes);
  if (!expect(search, *codes, {DType::i8}, {}) || weight.shape.size() != 2 ||
      !expect(search, scales, {DType::f32}, {weight.shape[0]}))
    return search.fault("tensor " + weight.name + " is not a matrix in 8 bits with scales " + full);
  if (const auto format = search.part(stem, ".weight_format"))
    if (search.at(*format).count() != 1 || values_of(search.file, *format)[0] != 0)
      search.fault("tensor " + search.at(*format).name +
                   " says that the codes are laid out for a card, expected 0: row after row");
  search.add(*codes, {{weight.name, weight.shape, DType::f32},
                      std::make_shared<EightBits>(*codes, scales)});
}

}  // namespace

void find_bitsandbytes(StoredSearch& search) {
  constexpr std::string_view kAbsmax = ".absmax";
  const StoredMethod method = search.scheme.method;
  const bool expected = method == StoredMethod::none || method == StoredMethod::bitsandbytes;
  for (size_t i = 0; i < search.file.tensors().size(); ++i) {
    const std::string& name = search.at(i).name;
    const bool four = name.find(kState) != std::string::npos, eight = ends_with(name, ".SCB");
    if ((four || eight) && !expected)
      return search.fault("tensor " + name +
                          " is one of bitsandbytes, and config.json names another quant_method");
    if (four) add_four_bits(search, i);
    if (eight) add_eight_bits(search, i);
  }
  for (size_t i = 0; i < search.file.tensors().size(); ++i)
    if (const std::string& name = search.at(i).name; search.plain(i) && ends_with(name, kAbsmax))
      search.fault("tensor " + name + " holds scales of " +
                   name.substr(0, name.size() - kAbsmax.size()) + ", whose quant_state is missing");
}

}  // namespace forge
