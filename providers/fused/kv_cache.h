#pragma once
// Keys and values of many sequences, in pages of one allocation
// (kernels/attention/cached_attention_args.h). A sequence takes a page when it needs one and gives
// them back when it ends; the allocation doubles when no page is left.
#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/families/model_spec.h"
#include "kernels/attention/cached_attention_args.h"

namespace forge {

class KvCache {
 public:
  KvCache(const ModelSpec& spec, c10::ScalarType type, c10::Device device);

  int64_t length(int64_t sequence) const;
  // Takes the pages for `tokens` more of a sequence; a sequence that was never named is empty.
  void extend(int64_t sequence, int64_t tokens);
  // Gives `to`, which must be empty, the tokens of `from`. Full pages are shared until both
  // sequences are gone, the last page is copied.
  void fork(int64_t from, int64_t to);
  // Removes the last tokens of a sequence, none of which it shares.
  void shorten(int64_t sequence, int64_t tokens);
  void release(int64_t sequence);

  // Returns the pages of these sequences, a row each, without the heads of a layer; valid until the
  // next call of a member.
  CacheShape shape(const std::vector<int64_t>& sequences);
  // Returns the numbers of a sequence's pages, in order; valid as long.
  const std::vector<int32_t>& pages_of(int64_t sequence) { return at(sequence).pages; }
  // Returns the memory of all pages: uint8 [pages · page_bytes].
  const at::Tensor& memory() const { return memory_; }
  int64_t page_bytes() const { return page_bytes_; }  // keys and values of every layer
  // Returns the pages of all sequences, each the keys and values of every layer; valid as long.
  char* pages() const { return static_cast<char*>(memory_.data_ptr()); }
  const std::vector<CacheLayer>& layers() const { return layers_; }
  int64_t bytes() const { return memory_.defined() ? memory_.numel() : 0; }

 private:
  struct Sequence {
    int64_t length = 0;
    std::vector<int32_t> pages;
  };
  Sequence& at(int64_t sequence);
  int32_t take_page();
  void give_page(int32_t page);
  void grow();

  Element type_;
  c10::Device device_;
  std::vector<CacheLayer> layers_;
  int64_t page_bytes_ = 0;
  at::Tensor memory_;  // uint8 [pages, page_bytes]
  std::vector<int32_t> free_;
  std::vector<int32_t> users_;  // sequences of each page
  std::vector<Sequence> sequences_;
  std::vector<int32_t> table_;
};

}  // namespace forge
