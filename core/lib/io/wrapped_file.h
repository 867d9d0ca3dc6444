#pragma once
// Weight file that shows another file's tensors, some of them made anew: turned, extended, decoded.
// A subclass says what it makes; all else is the other file's.
#include <memory>
#include <utility>
#include <vector>

#include "core/lib/io/tensor_file.h"

namespace forge {

class WrappedFile : public TensorFile {
 public:
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string_view bytes(size_t index) const override { return file_->bytes(source(index)); }
  bool bytes_are_values(size_t index) const override { return !makes(index) && file_->bytes_are_values(source(index)); }
  void read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const override {
    makes(index) ? make_rows(index, begin, count, values) : file_->read_rows_f32(source(index), begin, count, values);
  }
  bool stores_rows(size_t index) const override { return !makes(index) && file_->stores_rows(source(index)); }
  void read_stored(size_t index, char* bytes) const override { file_->read_stored(source(index), bytes); }
  std::optional<BookBlocks> book_blocks(size_t index) const override {
    return makes(index) ? std::nullopt : file_->book_blocks(source(index));
  }
  int64_t file_bytes() const override { return file_->file_bytes(); }
  std::string header_hash() const override { return file_->header_hash(); }
  bool data_missing() const override { return file_->data_missing(); }

 protected:
  explicit WrappedFile(std::unique_ptr<TensorFile> file) : file_(std::move(file)) {}
  // True if make_rows() makes tensor `index` (called like read_rows_f32); otherwise it is the
  // file's tensor `source(index)`.
  virtual bool makes(size_t index) const = 0;
  virtual void make_rows(size_t index, int64_t begin, int64_t count, float* values) const = 0;
  virtual size_t source(size_t index) const { return index; }

  std::unique_ptr<TensorFile> file_;
  std::vector<TensorInfo> tensors_;  // as they are shown
};

}  // namespace forge
