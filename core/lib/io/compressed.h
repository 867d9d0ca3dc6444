#pragma once
// Reads the bytes of a regular file in order, decompressed on the way when its first bytes say gzip
// or zstd; its name decides nothing.
//
//   InputFile file("train.jsonl.gz");
//   while (int64_t count = file.read(buffer, sizeof buffer)) use(buffer, count);
//
// gzip may have several members (as `cat a.gz b.gz` and bgzip make) and zero bytes after them, zstd
// several frames and skippable ones (RFC 1952, RFC 8878). Memory: one input buffer and the
// decoder's window, at most 128 MiB for zstd, whatever the file claims.
//
// A decompression bomb is refused: text of more than kExpansionFloor that is more than
// kMaxExpansion times what was read of the file. Data sets shrink 3 to 30 times; gzip's own limit
// is 1,032.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace forge {

constexpr int64_t kMaxExpansion = 500;
constexpr int64_t kExpansionFloor = int64_t{64} << 20;

class Decompressor;

class InputFile {
 public:
  // Throws Error(data) "path: what" when the file is missing or not a regular file.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `into` with up to `size` bytes and returns how many; 0 at the end. Bytes before a damaged
  // place are returned first. Throws Error(data) "what" without the path: the caller knows the
  // line.
  int64_t read(char* into, int64_t size);

  bool compressed() const { return decompressor_ != nullptr; }
  // Returns the bytes of the file itself that were used.
  int64_t file_position() const { return raw_position_ - static_cast<int64_t>(end_ - begin_); }

 private:
  int64_t read_raw(char* into, int64_t size);
  int64_t decode(char* into, int64_t size);
  void refill();

  int descriptor_ = -1;
  int64_t raw_position_ = 0, produced_ = 0;
  std::vector<char> input_;
  size_t begin_ = 0, end_ = 0;  // what is read and not yet decoded
  bool at_end_ = false;
  std::unique_ptr<Decompressor> decompressor_;
  std::string problem_;
};

}  // namespace forge
