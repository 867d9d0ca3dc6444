#include "core/model/families/dequantised_file.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/wrapped_file.h"

namespace forge {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kInverse = "_scale_inv";
constexpr int64_t kHalfBlock = 16, kBlock = 32;  // bytes and numbers of mxfp4
// E2M1: a sign, two bits of exponent, one of mantissa.
constexpr float kFp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

enum class Stored { plain, mxfp4, fp8 };

// Indices of a tensor's numbers and of their scales in the file.
struct Source {
  Stored stored = Stored::plain;
  size_t values = 0, scales = 0;
  int64_t square = 0;  // fp8: rows and columns that share a scale
};

[[noreturn]] void misfit(const TensorInfo& values, const TensorInfo& scales) {
  throw Error(ErrorKind::environment, scales.name + ": " + format_shape(scales.shape) + " are not scales of " + values.name + " " +
                                          format_shape(values.shape));
}

int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Returns the smallest power of two that gives as many parts as there are scales.
int64_t square_of(const TensorInfo& values, const TensorInfo& scales) {
  if (values.shape.size() != 2 || scales.shape.size() != 2) misfit(values, scales);
  for (int64_t square = 1; square <= 1 << 20; square *= 2)
    if (parts(values.shape[0], square) == scales.shape[0] && parts(values.shape[1], square) == scales.shape[1]) return square;
  misfit(values, scales);
}

class DequantisedFile : public WrappedFile {
 public:
  explicit DequantisedFile(std::unique_ptr<TensorFile> file) : WrappedFile(std::move(file)) {
    for (size_t i = 0; i < file_->tensors().size(); ++i) add(i);
  }

 protected:
  bool makes(size_t index) const override { return sources_[index].stored != Stored::plain; }
  size_t source(size_t index) const override { return sources_[index].values; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    const Source& source = sources_[index];
    if (source.stored == Stored::fp8) return read_fp8(source, begin, count, values);
    const int64_t expert = tensors_[index].shape[1] * tensors_[index].shape[2];
    for (int64_t i = 0; i < count; ++i) read_mxfp4(source, begin + i, values + i * expert);
  }

 private:
  void add(size_t i) {
    TensorInfo tensor = file_->tensors()[i];
    if (scales_of(tensor.name, kScales, kBlocks) >= 0 || scales_of(tensor.name, kInverse, "") >= 0) return;  // with their numbers
    Source source{.values = i};
    if (const int64_t scales = scales_of(tensor.name, kBlocks, kScales); scales >= 0) {
      source = {Stored::mxfp4, i, static_cast<size_t>(scales)};
      tensor = matrices_of(tensor, file_->tensors()[source.scales]);
    } else if (const int64_t inverse = file_->find(tensor.name + std::string(kInverse)); inverse >= 0) {
      source = {Stored::fp8, i, static_cast<size_t>(inverse)};
      source.square = square_of(tensor, file_->tensors()[source.scales]);
      tensor.dtype = DType::bf16;
    }
    tensors_.push_back(std::move(tensor));
    sources_.push_back(source);
  }
  // Returns the tensor with this name but another ending, or −1.
  int64_t scales_of(const std::string& name, std::string_view ending, std::string_view other) const {
    if (!ends_with(name, ending)) return -1;
    return file_->find(name.substr(0, name.size() - ending.size()) + std::string(other));
  }
  static TensorInfo matrices_of(const TensorInfo& blocks, const TensorInfo& scales) {
    const std::vector<int64_t>& shape = blocks.shape;
    if (shape.size() != 4 || shape[3] != kHalfBlock || blocks.dtype != DType::u8 || scales.dtype != DType::u8 ||
        scales.shape != std::vector<int64_t>(shape.begin(), shape.begin() + 3))
      misfit(blocks, scales);
    return {blocks.name.substr(0, blocks.name.size() - kBlocks.size()), {shape[0], shape[2] * kBlock, shape[1]}, DType::bf16};
  }

  // Reads one expert's [out, in] as [in, out].
  void read_mxfp4(const Source& source, int64_t expert, float* values) const {
    const std::vector<int64_t>& shape = file_->tensors()[source.values].shape;
    const int64_t out = shape[1], blocks = shape[2];
    const auto* codes = reinterpret_cast<const uint8_t*>(file_->bytes(source.values).data()) + expert * out * blocks * kHalfBlock;
    const auto* scales = reinterpret_cast<const uint8_t*>(file_->bytes(source.scales).data()) + expert * out * blocks;
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

  void read_fp8(const Source& source, int64_t begin, int64_t count, float* values) const {
    file_->read_rows_f32(source.values, begin, count, values);
    const int64_t columns = file_->tensors()[source.values].shape[1], across = parts(columns, source.square);
    const int64_t first = begin / source.square, last = (begin + count - 1) / source.square;
    std::vector<float> scales(static_cast<size_t>((last - first + 1) * across));
    file_->read_rows_f32(source.scales, first, last - first + 1, scales.data());
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < columns; ++column)
        values[row * columns + column] *= scales[static_cast<size_t>(((begin + row) / source.square - first) * across + column / source.square)];
  }

  std::vector<Source> sources_;
};

}  // namespace

std::unique_ptr<TensorFile> dequantised(std::unique_ptr<TensorFile> file) {
  const auto in_blocks = [&](const TensorInfo& tensor) {
    return ends_with(tensor.name, kInverse) ||
           (ends_with(tensor.name, kScales) && file->find(tensor.name.substr(0, tensor.name.size() - kScales.size()) + std::string(kBlocks)) >= 0);
  };
  if (std::none_of(file->tensors().begin(), file->tensors().end(), in_blocks)) return file;
  return std::make_unique<DequantisedFile>(std::move(file));
}

}  // namespace forge
