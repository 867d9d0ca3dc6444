#include "core/run/export/quantised_base.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "core/lib/base/ceil_div.h"
#include "core/lib/base/threads.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/families/parameters.h"
#include "kernels/fp8/e4m3_rows.h"

namespace forge {
namespace {

constexpr int64_t kBlock = 64, kNestedBlock = 256;  // as in kernels/quantize/quantize.h
constexpr int64_t kStretch = kBlock * kNestedBlock;


// One quantised matrix, block by block in memory order.
class Blocks {
 public:
  Blocks(const TensorFile& file, size_t index, const ModelConfig& model) : quantization_(model.quantization) {
    const TensorInfo& tensor = file.tensors()[index];
    count_ = tensor.count();
    const int64_t columns = count_ / tensor.rows();
    const bool by_row = quantization_ == Quantization::fp8;
    block_ = by_row ? columns : kBlock;
    if (take(file.book_blocks(index), model.double_quantization)) return;
    codes_.resize(static_cast<size_t>(in_bytes() ? count_ : ceil_div(count_, 2)));
    absmax_.resize(static_cast<size_t>(ceil_div(count_, block_)));
    // The ranges of rows are such that every block lies within one of them.
    int64_t rows = 1;
    while (!by_row && rows * columns % kStretch != 0 && rows < tensor.rows()) ++rows;
    for_each_range(tensor.rows(), rows, [&](int64_t begin, int64_t end) {
      std::vector<float> values;
      for (int64_t row = begin; row < end; row += rows) {
        const int64_t many = std::min(rows, end - row), first = row * columns, length = many * columns;
        values.resize(static_cast<size_t>(length));
        file.read_rows_f32(index, row, many, values.data());
        encode(values.data(), first, length);
      }
    });
    if (model.double_quantization && !in_bytes()) nest();
  }

  // Decodes the values [first, first + count).
  void decode(int64_t first, int64_t count, float* values) const {
    std::vector<float> block(static_cast<size_t>(block_));
    for (int64_t begin = first / block_ * block_; begin < first + count; begin += block_) {
      const int64_t length = std::min(block_, count_ - begin);
      const float* absmax = absmax_.data() + begin / block_;
      if (quantization_ == Quantization::fp8)
        for (int64_t i = 0; i < length; ++i) block[static_cast<size_t>(i)] = e4m3_book()[codes_[static_cast<size_t>(begin + i)]] * *absmax;
      else if (quantization_ == Quantization::int8)
        dequantize_8bit(codes_.data() + begin, absmax, length, kBlock, block.data());
      else
        dequantize_4bit(book(), codes_.data() + begin / 2, absmax, length, kBlock, block.data());
      const int64_t from = std::max(begin, first), to = std::min(begin + length, first + count);
      std::copy(block.begin() + (from - begin), block.begin() + (to - begin), values + (from - first));
    }
  }

 private:
  bool in_bytes() const { return quantization_ == Quantization::int8 || quantization_ == Quantization::fp8; }
  const FourBitBook& book() const { return quantization_ == Quantization::nf4 ? nf4_book() : fp4_book(); }

  // Takes the blocks that the file holds, if they are of this kind, as the engine does.
  bool take(const std::optional<BookBlocks>& blocks, bool nested) {
    const bool four_bits = quantization_ == Quantization::nf4 || quantization_ == Quantization::fp4;
    if (!blocks || !four_bits || blocks->nf4 != (quantization_ == Quantization::nf4) ||
        blocks->block != kBlock)
      return false;
    codes_.assign(blocks->codes.begin(), blocks->codes.end());
    absmax_ = blocks->absmax;
    const EightBitBook& map = dynamic_book();
    const bool alike =
        blocks->nested() && blocks->nested_block == kNestedBlock &&
        std::equal(map.begin(), map.end(), blocks->nested_map.begin(), blocks->nested_map.end());
    if (nested && !alike) nest();
    return true;
  }

  void encode(const float* values, int64_t first, int64_t length) {
    float* absmax = absmax_.data() + first / block_;
    if (quantization_ == Quantization::fp8)
      for (int64_t at = 0; at < length; at += block_) *absmax++ = quantize_e4m3(values + at, block_, codes_.data() + first + at);
    else if (quantization_ == Quantization::int8)
      quantize_8bit(values, length, kBlock, codes_.data() + first, absmax);
    else
      quantize_4bit(book(), values, length, kBlock, codes_.data() + first / 2, absmax);
  }

  // Rounds absmax - mean to 8 bits by the dynamic map.
  void nest() {
    double sum = 0;
    for (float value : absmax_) sum += value;
    const auto mean = static_cast<float>(sum / static_cast<double>(absmax_.size()));
    for (float& value : absmax_) value -= mean;
    const auto count = static_cast<int64_t>(absmax_.size());
    std::vector<uint8_t> codes(absmax_.size());
    std::vector<float> scales(static_cast<size_t>(ceil_div(count, kNestedBlock)));
    quantize_8bit(absmax_.data(), count, kNestedBlock, codes.data(), scales.data());
    dequantize_8bit(codes.data(), scales.data(), count, kNestedBlock, absmax_.data());
    for (float& value : absmax_) value += mean;
  }

  Quantization quantization_;
  int64_t count_ = 0, block_ = 0;
  std::vector<uint8_t> codes_;
  std::vector<float> absmax_;
};

class QuantisedBase : public WrappedFile {
 public:
  QuantisedBase(std::unique_ptr<TensorFile> base, std::set<std::string> names, ModelConfig model)
      : WrappedFile(std::move(base)), names_(std::move(names)), model_(std::move(model)) {
    tensors_ = file_->tensors();
  }

 protected:
  bool makes(size_t index) const override { return names_.count(tensors_[index].name) > 0; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    const int64_t columns = tensors_[index].count() / tensors_[index].rows();
    blocks_of(index)->decode(begin * columns, count * columns, values);
  }

 private:
  // Returns the blocks of a tensor. Only those of the last tensor are kept.
  std::shared_ptr<const Blocks> blocks_of(size_t index) const {
    const std::lock_guard lock(mutex_);
    if (!blocks_ || held_ != index) {
      blocks_ = std::make_shared<const Blocks>(*file_, index, model_);
      held_ = index;
    }
    return blocks_;
  }

  std::set<std::string> names_;
  ModelConfig model_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Blocks> blocks_;
  mutable size_t held_ = 0;
};

}  // namespace

std::unique_ptr<TensorFile> quantised_base(std::unique_ptr<TensorFile> base, const ModelSpec& spec,
                                           const AdapterConfig& adapter, const ModelConfig& model) {
  if (model.quantization == Quantization::none) return base;
  std::set<std::string> names;
  for (const Parameter& parameter : run_parameters(spec, adapter, model.quantization))
    if (parameter.quantized) names.insert(parameter.name);
  return std::make_unique<QuantisedBase>(std::move(base), std::move(names), model);
}

}  // namespace forge
