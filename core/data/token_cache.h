#pragma once
// The file of a DataSet: tokenised examples, memory-mapped, written once and whole.
//
//   offset  bytes  what
//   0       8      "forgetok"
//   8       8      version, int64
//   16      …      records: int32 ids[length], uint8 mask[length], zeros up to a multiple of 4 bytes
//   I       32·n   index: int64 offset, int64 line, int32 length, int32 supervised, int32 source, int32 label
//   H       32·b   for each block of 256 KiB of the bytes before I: 32 hexadecimal digits of its XXH3-128
//   M       m      JSON: {"sources", "labels", "summary", "pairs"}; label k of the index is labels[k - 1], 0 is none
//   end-80  80     footer: int64 I, H, M, m, n; 32 hexadecimal digits of XXH3-128 over all bytes from I to here;
//                  "forgeend"
//
// Numbers are little-endian. The ids and the mask of an example are adjacent, so that examples are
// written as they come with only 32 bytes each kept in memory, and reading one touches one place.
//
// Verification. Opening reads index, hashes, JSON and footer and checks them against the footer's
// hash, and the file's size against them: 33 bytes an example, so a cache of a gigabyte opens in
// milliseconds. A block of records is checked when the first of its examples is read; verify()
// checks all of them. So unverified bytes are never used, and nobody waits for what is not read.
// Checking reads through a buffer: the mapping's pages count as memory of the process only where
// examples were read.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/data/batch/batch.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/io/json.h"

namespace forge {

struct CacheEntry {
  int64_t offset = 0;
  int64_t line = 0;
  int32_t length = 0;
  int32_t supervised = 0;
  int32_t source = 0;
  int32_t label = 0;
};
static_assert(sizeof(CacheEntry) == 32);

class TokenCacheWriter {
 public:
  // Writes to a temporary sibling of `path`, and removes the files that killed processes left in
  // its folder. Two processes that make the same cache write two siblings, and the last to finish
  // replaces the other's equal file. Throws Error(environment), as do all members.
  explicit TokenCacheWriter(const std::string& path);
  ~TokenCacheWriter();  // without finish(): removes the temporary file
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  void add(const std::vector<int32_t>& ids, const std::vector<uint8_t>& supervised, int64_t source,
           int64_t line, const std::string& label = "");
  // Returns the hash of ids and masks so far: DataSet::content_hash.
  std::string content_hash() const { return content_.hex(); }
  // Writes index, hashes, `meta` with the labels, and footer, flushes them to the device, and
  // renames the file to `path`.
  void finish(Json meta);

 private:
  void put(const void* bytes, size_t size);
  void end_block();

  std::string path_, temporary_;
  std::unique_ptr<OutputFile> file_;
  std::string block_, block_hashes_;
  int64_t written_ = 0;
  Hasher content_;
  std::vector<CacheEntry> index_;
  std::map<std::string, int32_t> labels_;  // from 1, in the order of their first example
};

// A mapped cache file. All members may be called from several threads. They throw Error(data)
// "PATH: damaged token cache: why".
class TokenCache {
 public:
  explicit TokenCache(const std::string& path);
  TokenCache(const TokenCache&) = delete;
  TokenCache& operator=(const TokenCache&) = delete;

  const std::string& path() const { return file_.path(); }
  const Json& meta() const { return meta_; }
  int64_t examples() const { return examples_; }
  CacheEntry entry(int64_t index) const;
  // Returns the record's first byte, after its blocks were verified.
  const char* record(const CacheEntry& entry) const;
  // Verifies all blocks.
  void verify() const;

 private:
  [[noreturn]] void fail(const std::string& problem) const;
  std::string read(int64_t offset, int64_t size) const;
  void verify_block(int64_t block) const;
  void check_index(const char* entries, int64_t count) const;
  void read_tail(const std::string& stated_hash, int64_t end);

  MappedFile file_;
  RegularFile reader_;
  int64_t examples_ = 0, index_offset_ = 0, hashes_offset_ = 0, meta_offset_ = 0;
  std::string block_hashes_;
  Json meta_;
  std::unique_ptr<std::atomic<bool>[]> verified_;  // by block
};

}  // namespace forge
