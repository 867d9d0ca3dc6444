#include "core/model/stored/dequantised_file.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/stored/bitsandbytes.h"
#include "core/model/stored/packed.h"
#include "core/model/stored/scaled.h"
#include "core/model/stored/search.h"

namespace forge {
namespace {

class DequantisedFile : public WrappedFile {
 public:
  DequantisedFile(std::unique_ptr<TensorFile> file, const StoredSearch& search)
      : WrappedFile(std::move(file)) {
    for (size_t i = 0; i < file_->tensors().size(); ++i) {
      const auto found = search.found().find(i);
      if (found == search.found().end() && search.hidden(i)) continue;
      const bool made = found != search.found().end();
      tensors_.push_back(made ? found->second.shown : file_->tensors()[i]);
      matrices_.push_back(made ? found->second.matrix : nullptr);
      sources_.push_back(i);
    }
  }

  std::optional<BookBlocks> book_blocks(size_t index) const override {
    return makes(index) ? matrices_[index]->book_blocks(*file_) : std::nullopt;
  }

 protected:
  bool makes(size_t index) const override { return matrices_[index] != nullptr; }
  size_t source(size_t index) const override { return sources_[index]; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    matrices_[index]->read(*file_, begin, count, values);
  }

 private:
  std::vector<std::shared_ptr<const StoredMatrix>> matrices_;  // null: the file's own tensor
  std::vector<size_t> sources_;
};

// Adds a fault for each matrix of codes that no scales were found for.
void refuse_bare_codes(StoredSearch& search) {
  constexpr DType kCodes[] = {DType::u8, DType::i8, DType::i32, DType::f8_e4m3, DType::f8_e5m2};
  for (size_t i = 0; i < search.file.tensors().size(); ++i) {
    const TensorInfo& tensor = search.at(i);
    const bool codes = std::count(std::begin(kCodes), std::end(kCodes), tensor.dtype) > 0;
    const bool weight = ends_with(tensor.name, ".weight") || ends_with(tensor.name, ".qweight") ||
                        ends_with(tensor.name, ".weight_packed");
    if (search.plain(i) && codes && weight)
      search.fault("tensor " + tensor.name + " holds codes, " + name_of(tensor.dtype) + " " +
                   format_shape(tensor.shape) +
                   ", and nothing in the file says what they stand for");
  }
}

// Adds a fault for codes of GPTQ or AWQ, which look alike and of which config.json says nothing.
void refuse_unnamed(StoredSearch& search) {
  constexpr std::string_view kCodes = ".qweight";
  for (const TensorInfo& tensor : search.file.tensors())
    if (ends_with(tensor.name, kCodes) && tensor.dtype == DType::i32)
      return search.fault("tensor " + tensor.name +
                          " holds codes of GPTQ or AWQ, and config.json has no quantization_config "
                          "that says which, and of how many bits");
}

// Adds a fault for each matrix in codes of a module that config.json says is not quantised.
void refuse_ignored(StoredSearch& search) {
  constexpr std::string_view kWeight = ".weight";
  for (const auto& [index, found] : search.found()) {
    const std::string& name = found.shown.name;
    if (ends_with(name, kWeight) &&
        search.scheme.ignores(name.substr(0, name.size() - kWeight.size())))
      search.fault("tensor " + search.at(index).name +
                   " holds codes, but config.json's quantization_config ignores its module");
  }
}

}  // namespace

std::unique_ptr<TensorFile> dequantised(std::unique_ptr<TensorFile> file,
                                        const StoredScheme& scheme, const std::string& path) {
  StoredSearch search(*file, scheme);
  find_mxfp4(search);
  find_nvfp4(search);
  find_bitsandbytes(search);
  find_packed_rows(search);
  find_scaled(search);
  if (scheme.method == StoredMethod::gptq) find_gptq(search);
  if (scheme.method == StoredMethod::awq) find_awq(search);
  if (scheme.method == StoredMethod::none) refuse_unnamed(search);
  if (scheme.method != StoredMethod::none && search.sound()) refuse_bare_codes(search);
  if (scheme.ignores) refuse_ignored(search);
  search.raise(path);
  if (search.empty()) return file;
  return std::make_unique<DequantisedFile>(std::move(file), search);
}

}  // namespace forge
