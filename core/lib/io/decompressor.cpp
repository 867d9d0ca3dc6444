#include "core/lib/io/decompressor.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

class GzipDecompressor : public Decompressor {
 public:
  GzipDecompressor() {
    constexpr int kGzipOnly = 16;
    FORGE_CHECK(inflateInit2(&stream_, kGzipOnly + MAX_WBITS) == Z_OK, "zlib did not start");
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }
  const char* name() const override { return "gzip"; }
  bool complete() const override { return between_members_; }

  Decompressed decode(std::string_view input, char* into, size_t size) override {
    if (between_members_) {
      if (input.empty()) return {};
      // Tapes and block devices pad with zeros.
      const size_t zeros = std::min(input.find_first_not_of('\0'), input.size());
      if (zeros > 0) return {zeros, 0, ""};
      if (input[0] != '\x1f') return {0, 0, "bytes that are not gzip follow the data"};
      inflateReset(&stream_);
      between_members_ = false;
    }
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(std::min(input.size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(into);
    stream_.avail_out = static_cast<uInt>(std::min(size, kMost));
    const size_t offered = stream_.avail_in, room = stream_.avail_out;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    Decompressed step{offered - stream_.avail_in, room - stream_.avail_out, ""};
    between_members_ = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      step.problem = stream_.msg ? stream_.msg : "not decodable";
    return step;
  }

 private:
  z_stream stream_{};
  bool between_members_ = false;
};

class ZstdDecompressor : public Decompressor {
 public:
  ZstdDecompressor() : stream_(ZSTD_createDStream()) {
    FORGE_CHECK(stream_, "zstd did not start");
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdDecompressor() override { ZSTD_freeDStream(stream_); }
  const char* name() const override { return "zstd"; }
  bool complete() const override { return between_frames_; }

  Decompressed decode(std::string_view input, char* into, size_t size) override {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{into, size, 0};
    const size_t status = ZSTD_decompressStream(stream_, &out, &in);
    Decompressed step{in.pos, out.pos, ""};
    if (ZSTD_isError(status))
      step.problem = ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge
                         ? "needs a window of more than 128 MiB; compress it without --long"
                         : lower(ZSTD_getErrorName(status));
    else if (in.pos > 0 || out.pos > 0)
      between_frames_ = status == 0;
    return step;
  }

 private:
  static constexpr int kWindowLog = 27;
  ZSTD_DStream* stream_;
  bool between_frames_ = false;
};

bool is_zstd(std::string_view start) {
  // A frame, or a skippable frame (RFC 8878, 3.1).
  return starts_with(start, "\x28\xb5\x2f\xfd") ||
         (start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18");
}

}  // namespace

std::unique_ptr<Decompressor> decompressor_for(std::string_view start) {
  if (starts_with(start, "\x1f\x8b")) return std::make_unique<GzipDecompressor>();
  if (is_zstd(start)) return std::make_unique<ZstdDecompressor>();
  return nullptr;
}

}  // namespace forge
