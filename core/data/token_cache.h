#pragma once
// The file behind a DataSet: tokenised examples, memory-mapped, written once and whole.
//
//   offset  bytes  what
//   0       8      "forgetok"
//   8       8      version, int64
//   16      …      records: int32 ids[length], uint8 mask[length], zeros up to a multiple of 4 bytes
//   I       32·n   index: int64 offset, int64 line, int32 length, int32 supervised, int32 source, int32 zero
//   M       m      JSON: {"key", "sources", "summary"}
//   end-80  80     footer: int64 I, M, m, n; 32 hexadecimal digits of XXH3-128 over all bytes before them;
//   "forgeend",
//                  8 zeros
//
// Little-endian. Ids and mask of an example lie together, so that examples are written as they come with
// nothing but 32 bytes each kept in memory, and reading one touches one place.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/data/batch.h"
#include "core/io/json.h"

namespace forge {

struct CacheEntry {
  int64_t offset = 0;
  int64_t line = 0;
  int32_t length = 0;
  int32_t supervised = 0;
  int32_t source = 0;
  int32_t zero = 0;
};
static_assert(sizeof(CacheEntry) == 32);

class TokenCacheWriter {
 public:
  // Writes to a temporary sibling of `path`; siblings that a killed process left are removed. Throws
  // Error(environment), as do all members.
  explicit TokenCacheWriter(const std::string& path);
  ~TokenCacheWriter();  // without finish(): removes the temporary file
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  void add(const std::vector<int32_t>& ids, const std::vector<uint8_t>& supervised, int64_t source,
           int64_t line);
  // Hash of ids and masks so far: DataSet::content_hash.
  std::string content_hash() const { return content_.hex(); }
  // Index, `meta` and footer, flushed to the device, then renamed to `path`.
  void finish(const Json& meta);

 private:
  void put(const void* bytes, size_t size);
  void flush();

  std::string path_, temporary_;
  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
  int64_t written_ = 0;
  Hasher whole_, content_;
  std::vector<CacheEntry> index_;
};

// A sibling of `path` to write to before renaming; it carries this process's id, so that those of processes
// that no longer run can be told and removed.
std::string temporary_of(const std::string& path);
void remove_abandoned_temporaries(const std::string& path);

// A mapped and verified cache file. Throws Error(data) "PATH: damaged token cache: why".
struct TokenCache {
  explicit TokenCache(const std::string& path);
  MappedFile file;
  std::vector<CacheEntry> index;
  Json meta;
};

}  // namespace forge
