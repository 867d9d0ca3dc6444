#include "core/data/token_cache.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

static_assert(std::endian::native == std::endian::little, "the cache is written as memory lies");

constexpr char kMagic[] = "forgetok";
constexpr char kEndMagic[] = "forgeend";
constexpr int64_t kVersion = 3;
constexpr int64_t kHeaderBytes = 16, kFooterBytes = 80, kEntryBytes = sizeof(CacheEntry), kHashBytes = 32;
constexpr int64_t kBlockBytes = int64_t{256} << 10;

struct Footer {
  int64_t index_offset = 0, hashes_offset = 0, meta_offset = 0, meta_size = 0, examples = 0;
  char hash[kHashBytes] = {};
  char magic[8] = {};
};
static_assert(sizeof(Footer) == kFooterBytes);

int64_t blocks_of(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

}  // namespace

TokenCacheWriter::TokenCacheWriter(const std::string& path) : path_(path), temporary_(temporary_of(path)) {
  make_directories(std::filesystem::path(path).parent_path().string());
  remove_abandoned(std::filesystem::path(path).parent_path().string());
  file_ = std::make_unique<OutputFile>(temporary_);
  put(kMagic, 8);
  put(&kVersion, sizeof kVersion);
}

TokenCacheWriter::~TokenCacheWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

void TokenCacheWriter::put(const void* bytes, size_t size) {
  const char* next = static_cast<const char*>(bytes);
  written_ += static_cast<int64_t>(size);
  while (size > 0) {
    const size_t part = std::min(size, static_cast<size_t>(kBlockBytes) - block_.size());
    block_.append(next, part);
    next += part;
    size -= part;
    if (block_.size() == static_cast<size_t>(kBlockBytes)) end_block();
  }
}

void TokenCacheWriter::end_block() {
  if (block_.empty()) return;
  block_hashes_ += hash_hex(block_);
  file_->write(block_);
  block_.clear();
}

void TokenCacheWriter::add(const std::vector<int32_t>& ids, const std::vector<uint8_t>& supervised,
                           int64_t source, int64_t line, const std::string& label) {
  FORGE_CHECK(!ids.empty() && ids.size() == supervised.size(),
              ids.size() << " ids, " << supervised.size() << " mask");
  FORGE_CHECK(!is_trained(supervised[0]), "the first token of an example cannot be predicted");
  CacheEntry entry{written_, line, static_cast<int32_t>(ids.size()), 0, static_cast<int32_t>(source), 0};
  if (!label.empty())
    entry.label = labels_.try_emplace(label, static_cast<int32_t>(labels_.size()) + 1).first->second;
  for (uint8_t value : supervised) entry.supervised += is_trained(value);
  index_.push_back(entry);
  put(ids.data(), ids.size() * sizeof(int32_t));
  put(supervised.data(), supervised.size());
  const char zeros[4] = {};
  put(zeros, (4 - supervised.size() % 4) % 4);
  content_.add(static_cast<int64_t>(ids.size()));
  content_.add(ids.data(), ids.size() * sizeof(int32_t)).add(supervised.data(), supervised.size());
}

void TokenCacheWriter::finish(Json meta) {
  end_block();
  std::vector<std::string> labels(labels_.size());
  for (const auto& [label, number] : labels_) labels[static_cast<size_t>(number - 1)] = label;
  meta["labels"] = labels;
  const std::string text = dump_json(meta);
  Footer footer;
  footer.index_offset = written_;
  footer.examples = static_cast<int64_t>(index_.size());
  footer.hashes_offset = footer.index_offset + footer.examples * kEntryBytes;
  footer.meta_offset = footer.hashes_offset + static_cast<int64_t>(block_hashes_.size());
  footer.meta_size = static_cast<int64_t>(text.size());
  Hasher tail;
  const auto write = [&](const void* bytes, size_t size) {
    tail.add(bytes, size);
    file_->write(bytes, size);
  };
  write(index_.data(), index_.size() * sizeof(CacheEntry));
  write(block_hashes_.data(), block_hashes_.size());
  write(text.data(), text.size());
  write(&footer, offsetof(Footer, hash));
  std::memcpy(footer.hash, tail.hex().data(), sizeof footer.hash);
  std::memcpy(footer.magic, kEndMagic, sizeof footer.magic);
  file_->write(footer.hash, sizeof(Footer) - offsetof(Footer, hash));
  file_->sync_and_close();
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw Error(ErrorKind::environment, path_ + ": cannot replace: " + error.message());
  file_.reset();
  sync_directory(std::filesystem::path(path_).parent_path().string());
}

TokenCache::TokenCache(const std::string& path) : file_(path), reader_(path, ErrorKind::environment) {
  const int64_t size = file_.size();
  if (size < kHeaderBytes + kFooterBytes) fail("it is cut off");
  const std::string header = read(0, kHeaderBytes), end = read(size - kFooterBytes, kFooterBytes);
  if (std::memcmp(header.data(), kMagic, 8) != 0) fail("it does not begin like a token cache");
  int64_t version = 0;
  std::memcpy(&version, header.data() + 8, sizeof version);
  if (version != kVersion)
    fail("version " + std::to_string(version) + ", expected " + std::to_string(kVersion));
  Footer footer;
  std::memcpy(&footer, end.data(), sizeof footer);
  if (std::memcmp(footer.magic, kEndMagic, sizeof footer.magic) != 0) fail("it is cut off");
  // Every subtraction is between numbers compared beforehand.
  const int64_t body = size - kFooterBytes;
  const bool ordered =
      kHeaderBytes <= footer.index_offset && footer.index_offset <= footer.hashes_offset &&
      footer.hashes_offset <= footer.meta_offset && footer.meta_offset <= body &&
      footer.meta_size == body - footer.meta_offset && footer.examples >= 0 &&
      footer.examples <= body / kEntryBytes &&
      footer.examples * kEntryBytes == footer.hashes_offset - footer.index_offset &&
      blocks_of(footer.index_offset) * kHashBytes == footer.meta_offset - footer.hashes_offset;
  if (!ordered) fail("its parts do not match each other");
  examples_ = footer.examples;
  index_offset_ = footer.index_offset;
  hashes_offset_ = footer.hashes_offset;
  meta_offset_ = footer.meta_offset;
  read_tail(std::string(footer.hash, sizeof footer.hash), body);
  verified_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(blocks_of(index_offset_)));
}

void TokenCache::fail(const std::string& problem) const {
  throw Error(ErrorKind::data, path() + ": damaged token cache: " + problem)
      .hint("delete the file; it is rebuilt from the data");
}

std::string TokenCache::read(int64_t offset, int64_t size) const {
  std::string bytes(static_cast<size_t>(size), 0);
  reader_.read_at(offset, bytes);
  return bytes;
}

// Reads index, hashes and JSON; `end` is where the footer begins.
void TokenCache::read_tail(const std::string& stated_hash, int64_t end) {
  const std::string text = read(meta_offset_, end - meta_offset_);
  block_hashes_ = read(hashes_offset_, meta_offset_ - hashes_offset_);
  Hasher hasher;
  for (int64_t offset = index_offset_; offset < hashes_offset_; offset += kBlockBytes) {
    const std::string part = read(offset, std::min(kBlockBytes, hashes_offset_ - offset));
    hasher.add(part.data(), part.size());
  }
  hasher.add(block_hashes_.data(), block_hashes_.size()).add(text.data(), text.size());
  const std::string numbers = read(end, offsetof(Footer, hash));
  if (hasher.add(numbers.data(), numbers.size()).hex() != stated_hash)
    fail("its index does not match its hash");
  meta_ = parse_json(text, path(), ErrorKind::data);
  if (!meta_.is_object() || !meta_.contains("sources") || !meta_["sources"].is_array())
    fail("it lists no sources");
  if (!meta_.contains("labels") || !meta_["labels"].is_array()) fail("it lists no labels");
  for (int64_t offset = index_offset_; offset < hashes_offset_; offset += kBlockBytes) {
    const std::string part = read(offset, std::min(kBlockBytes, hashes_offset_ - offset));
    check_index(part.data(), static_cast<int64_t>(part.size()) / kEntryBytes);
  }
}

void TokenCache::check_index(const char* entries, int64_t count) const {
  const auto sources = static_cast<int64_t>(meta_["sources"].size());
  const auto labels = static_cast<int64_t>(meta_["labels"].size());
  for (int64_t i = 0; i < count; ++i) {
    CacheEntry entry;
    std::memcpy(&entry, entries + i * kEntryBytes, sizeof entry);
    const bool inside = entry.length > 0 && entry.offset >= kHeaderBytes && entry.offset % 4 == 0 &&
                        entry.offset <= index_offset_ - int64_t{entry.length} * 5;
    if (!inside || entry.supervised < 0 || entry.supervised >= entry.length || entry.source < 0 ||
        entry.source >= sources || entry.label < 0 || entry.label > labels)
      fail("an entry of its index points outside");
  }
}

CacheEntry TokenCache::entry(int64_t index) const {
  FORGE_CHECK(index >= 0 && index < examples_, "example " << index << " of " << examples_);
  CacheEntry entry;
  std::memcpy(&entry, file_.data() + index_offset_ + index * kEntryBytes, sizeof entry);
  return entry;
}

const char* TokenCache::record(const CacheEntry& entry) const {
  const int64_t last = entry.offset + int64_t{entry.length} * 5 - 1;
  for (int64_t block = entry.offset / kBlockBytes; block <= last / kBlockBytes; ++block) verify_block(block);
  return file_.data() + entry.offset;
}

// Verifies a block. Two threads may check the same block at once; both come to the same answer.
void TokenCache::verify_block(int64_t block) const {
  std::atomic<bool>& verified = verified_[static_cast<size_t>(block)];
  if (verified.load(std::memory_order_relaxed)) return;
  const int64_t begin = block * kBlockBytes;
  const std::string bytes = read(begin, std::min(kBlockBytes, index_offset_ - begin));
  if (hash_hex(bytes) !=
      std::string_view(block_hashes_).substr(static_cast<size_t>(block * kHashBytes), kHashBytes))
    fail("the bytes from " + format_count(begin) + " on do not match their hash");
  verified.store(true, std::memory_order_relaxed);
}

void TokenCache::verify() const {
  for (int64_t block = 0; block < blocks_of(index_offset_); ++block) verify_block(block);
}

}  // namespace forge
