#include "core/model/stored/scaled.h"

#include <cmath>

#include "core/lib/base/text.h"
#include "core/model/stored/grid.h"

namespace forge {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kInverse = "_scale_inv",
                           kScale = "_scale";
constexpr int64_t kHalfBlock = 16, kBlock = 32;  // bytes and numbers of mxfp4
constexpr int64_t kNvBlock = 16;                 // numbers of nvfp4 that share a scale
// E2M1: a sign, two bits of exponent, one of mantissa.
constexpr float kFp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

void misfit(StoredSearch& search, const TensorInfo& values, const TensorInfo& scales) {
  search.fault(scales.name + ": " + format_shape(scales.shape) + " are not scales of " +
               values.name + " " + format_shape(values.shape));
}

class Mxfp4 : public StoredMatrix {
 public:
  Mxfp4(size_t codes, size_t scales) : codes_(codes), scales_(scales) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    const std::vector<int64_t>& shape = file.tensors()[codes_].shape;
    const int64_t expert = shape[1] * shape[2] * kBlock;
    for (int64_t i = 0; i < count; ++i) read_expert(file, begin + i, values + i * expert);
  }

 private:
  // Reads one expert's [out, in] as [in, out].
  void read_expert(const TensorFile& file, int64_t expert, float* values) const {
    const std::vector<int64_t>& shape = file.tensors()[codes_].shape;
    const int64_t out = shape[1], blocks = shape[2];
    const auto* codes = reinterpret_cast<const uint8_t*>(file.bytes(codes_).data()) +
                        expert * out * blocks * kHalfBlock;
    const auto* scales =
        reinterpret_cast<const uint8_t*>(file.bytes(scales_).data()) + expert * out * blocks;
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t row = 0; row < out; ++row) {
        const float scale = std::ldexp(1.0f, scales[row * blocks + block] - 127);
        const uint8_t* pairs = codes + (row * blocks + block) * kHalfBlock;
        float* column = values + block * kBlock * out + row;
        for (int64_t i = 0; i < kHalfBlock; ++i) {
          column[2 * i * out] = kFp4[pairs[i] & 15] * scale;
          column[(2 * i + 1) * out] = kFp4[pairs[i] >> 4] * scale;
        }
      }
  }

  size_t codes_, scales_;
};

// nvfp4: codes of E2M1, whose scales in e4m3, one for 16 of them, have a scale in fp32 together.
class Nvfp4 : public StoredMatrix {
 public:
  // divides: the scale of all is what scales were multiplied with, as compressed-tensors stores it,
  // not what they are multiplied with, as ModelOpt does.
  Nvfp4(size_t codes, size_t scales, size_t all, bool divides) : codes_(codes), scales_(scales), all_(all), divides_(divides) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    const int64_t columns = 2 * file.tensors()[codes_].shape[1], groups = columns / kNvBlock;
    const float all = values_of(file, all_)[0];
    const auto* codes = reinterpret_cast<const uint8_t*>(file.bytes(codes_).data()) + begin * columns / 2;
    std::vector<float> scales(static_cast<size_t>(count * groups));
    file.read_rows_f32(scales_, begin, count, scales.data());
    for (int64_t i = 0; i < count * groups; ++i) {
      const float scale = divides_ ? scales[static_cast<size_t>(i)] / all : scales[static_cast<size_t>(i)] * all;
      for (int64_t k = 0; k < kNvBlock; ++k) {
        const uint8_t pair = codes[i * kNvBlock / 2 + k / 2];
        values[i * kNvBlock + k] = kFp4[k % 2 == 0 ? pair & 15 : pair >> 4] * scale;
      }
    }
    round_to(DType::bf16, count * columns, values);
  }

 private:
  size_t codes_, scales_, all_;
  bool divides_;
};

class Scaled : public StoredMatrix {
 public:
  Scaled(size_t codes, Grid scales, std::optional<Grid> zeros, DType rounded)
      : codes_(codes), scales_(scales), zeros_(zeros), rounded_(rounded) {}

  void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const override {
    file.read_rows_f32(codes_, begin, count, values);
    const int64_t columns = file.tensors()[codes_].shape[1];
    const GridRows scales(file, scales_, begin, count, columns);
    if (zeros_) {
      const GridRows zeros(file, *zeros_, begin, count, columns);
      for (int64_t row = 0; row < count; ++row)
        for (int64_t column = 0; column < columns; ++column)
          values[row * columns + column] -= zeros.at(begin + row, column);
    }
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < columns; ++column)
        values[row * columns + column] *= scales.at(begin + row, column);
    round_to(rounded_, count * columns, values);
  }

 private:
  size_t codes_;
  Grid scales_;
  std::optional<Grid> zeros_;
  DType rounded_;
};

// Returns the blocks of the smallest power of two that gives as many of them as there are scales;
// empty if none does.
std::vector<int64_t> square_of(const TensorInfo& values, const TensorInfo& scales) {
  if (values.shape.size() != 2 || scales.shape.size() != 2) return {};
  for (int64_t square = 1; square <= 1 << 20; square *= 2)
    if (parts_of(values.shape[0], square) == scales.shape[0] &&
        parts_of(values.shape[1], square) == scales.shape[1])
      return {square, square};
  return {};
}

// Adds a matrix with scales for each of its blocks.
void add_blocks(StoredSearch& search, size_t codes, size_t scales) {
  TensorInfo shown = search.at(codes);
  const TensorInfo& grid = search.at(scales);
  search.hide(scales);
  const std::vector<int64_t> block =
      search.scheme.block.empty() ? square_of(shown, grid) : search.scheme.block;
  const bool fits = shown.shape.size() == 2 && block.size() == 2 && grid.shape.size() == 2 &&
                    grid.shape[0] == parts_of(shown.shape[0], block[0]) &&
                    grid.shape[1] == parts_of(shown.shape[1], block[1]);
  if (!fits) return misfit(search, shown, grid);
  shown.dtype = DType::bf16;
  search.add(codes,
             {std::move(shown), std::make_shared<Scaled>(codes, Grid{scales, block[0], block[1]},
                                                         std::nullopt, DType::f32)});
}

bool coded(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

// Adds STEM.weight with STEM.weight_scale.
void add_scaled(StoredSearch& search, const std::string& name, size_t scales) {
  search.hide(scales);
  const std::optional<size_t> zeros = search.part(name, "_zero_point");
  const std::optional<size_t> codes = search.find(name);
  if (!codes)
    return search.fault("tensor " + search.at(scales).name + " holds the scales of " + name +
                        ", which is missing");
  TensorInfo shown = search.at(*codes);
  constexpr size_t kWeight = std::string_view(".weight").size();
  const std::optional<StoredGroup> group = search.group_of(name.substr(0, name.size() - kWeight));
  if (group && !group->symmetric && !zeros)
    return search.fault("tensor " + name + " holds codes without their zero points, " + name +
                        "_zero_point");
  if (!coded(shown.dtype) && search.scheme.method == StoredMethod::none) return;
  if (!expect(search, *codes, {DType::i8, DType::f8_e4m3, DType::f8_e5m2}, {}) ||
      !expect(search, scales, {DType::f32, DType::bf16, DType::f16}, {}) ||
      (zeros && !expect(search, *zeros, {DType::i8}, search.at(scales).shape)))
    return;
  std::optional<Grid> grid, zero_grid;
  if (shown.shape.size() == 2) {
    const std::vector<int64_t>& block = group ? group->block : search.scheme.block;
    const int64_t size = group ? group->group : 0;
    grid = grid_of(search, scales, shown.shape[0], shown.shape[1], block, size);
    if (zeros) zero_grid = grid_of(search, *zeros, shown.shape[0], shown.shape[1], block, size);
  }
  if (!grid) return misfit(search, shown, search.at(scales));
  shown.dtype = search.at(scales).dtype;
  const DType rounded = shown.dtype;
  search.add(*codes,
             {std::move(shown), std::make_shared<Scaled>(*codes, *grid, zero_grid, rounded)});
}

// The names of a matrix in nvfp4: its codes, their scales, the scale of all.
struct Nvfp4Names {
  std::string_view codes, all;
  bool divides;
};
constexpr Nvfp4Names kCompressed{".weight_packed", ".weight_global_scale", true}, kModelOpt{".weight", ".weight_scale_2", false};

// Adds a matrix of `stem`, whose codes are tensor `codes` and whose scale of all is tensor `all`.
void add_nvfp4(StoredSearch& search, const std::string& stem, const Nvfp4Names& names, size_t codes, size_t all) {
  const std::string name = stem + ".weight";
  const std::optional<size_t> scales = search.part(stem, ".weight_scale");
  if (!scales)
    return search.fault("tensor " + search.at(codes).name + " holds codes without their scales, " + name + "_scale");
  const std::vector<int64_t> shape = search.at(codes).shape;
  if (shape.size() != 2 || 2 * shape[1] % kNvBlock != 0 || search.at(*scales).shape != std::vector<int64_t>{shape[0], 2 * shape[1] / kNvBlock})
    return misfit(search, search.at(codes), search.at(*scales));
  if (!expect(search, codes, {DType::u8}, {}) || !expect(search, *scales, {DType::f8_e4m3}, {}) || !expect(search, all, {DType::f32}, {})) return;
  if (search.at(all).count() != 1) return misfit(search, search.at(codes), search.at(all));
  search.add(codes, {{name, {shape[0], 2 * shape[1]}, DType::bf16}, std::make_shared<Nvfp4>(codes, *scales, all, names.divides)});
}

}  // namespace

void find_nvfp4(StoredSearch& search) {
  for (size_t i = 0; i < search.file.tensors().size(); ++i)
    for (const Nvfp4Names& names : {kCompressed, kModelOpt}) {
      const std::string name = search.at(i).name;
      if (!ends_with(name, names.all)) continue;
      const std::string stem = name.substr(0, name.size() - names.all.size());
      search.hide(i);
      const std::optional<size_t> codes = search.find(stem + std::string(names.codes));
      if (codes)
        add_nvfp4(search, stem, names, *codes, i);
      else
        search.fault("tensor " + name + " holds the scale of " + stem + std::string(names.codes) + ", which is missing");
    }
}

void find_mxfp4(StoredSearch& search) {
  for (size_t i = 0; i < search.file.tensors().size(); ++i) {
    const TensorInfo& blocks = search.at(i);
    if (!ends_with(blocks.name, kBlocks)) continue;
    const std::string name = blocks.name.substr(0, blocks.name.size() - kBlocks.size());
    const std::optional<size_t> scales = search.part(name, kScales);
    if (!scales) {
      if (blocks.dtype == DType::u8)
        search.fault("tensor " + blocks.name + " holds codes without their scales, " + name +
                     "_scales");
      continue;
    }
    const std::vector<int64_t>& shape = blocks.shape;
    const TensorInfo& grid = search.at(*scales);
    if (shape.size() != 4 || shape[3] != kHalfBlock || blocks.dtype != DType::u8 ||
        grid.dtype != DType::u8 ||
        grid.shape != std::vector<int64_t>(shape.begin(), shape.begin() + 3)) {
      misfit(search, blocks, grid);
      continue;
    }
    search.add(i, {{name, {shape[0], shape[2] * kBlock, shape[1]}, DType::bf16},
                   std::make_shared<Mxfp4>(i, *scales)});
  }
}

void find_scaled(StoredSearch& search) {
  for (size_t i = 0; i < search.file.tensors().size(); ++i) {
    const std::string& name = search.at(i).name;
    if (ends_with(name, kInverse)) {
      const std::string of = name.substr(0, name.size() - kInverse.size());
      const std::optional<size_t> codes = search.find(of);
      codes ? add_blocks(search, *codes, i)
            : search.fault("tensor " + name + " holds the scales of " + of + ", which is missing");
    }
    if (ends_with(name, ".weight_scale")) {
      const std::string of = name.substr(0, name.size() - kScale.size());
      const std::optional<size_t> codes = search.find(of);
      const bool nvfp4 = codes && search.found().count(*codes) > 0;
      if (!nvfp4 && !search.find(of + "_packed")) add_scaled(search, of, i);
    }
    if (search.scheme.method == StoredMethod::none) continue;
    for (const std::string_view ending : kActivationEndings)
      if (ends_with(name, ending)) search.hide(i);
  }
}

}  // namespace forge
