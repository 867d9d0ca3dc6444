#include "core/data/token_cache.h"

#include <signal.h>
#include <unistd.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "core/base/text.h"

namespace forge {
namespace {

static_assert(std::endian::native == std::endian::little, "the cache is written as memory lies");

constexpr char kMagic[] = "forgetok";
constexpr char kEndMagic[] = "forgeend";
constexpr int64_t kVersion = 1;
constexpr int64_t kHeaderBytes = 16, kFooterBytes = 80;
constexpr size_t kBufferBytes = size_t{1} << 20;

struct Footer {
  int64_t index_offset = 0, meta_offset = 0, meta_size = 0, examples = 0;
  char hash[32] = {};
  char magic[8] = {};
  char zeros[8] = {};
};
static_assert(sizeof(Footer) == kFooterBytes);

}  // namespace

std::string temporary_of(const std::string& path) { return path + ".tmp-" + std::to_string(::getpid()); }

void remove_abandoned_temporaries(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string prefix = whole.filename().string() + ".tmp-";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(whole.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!starts_with(name, prefix)) continue;
    pid_t process = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, process);
    if (parsed.ec == std::errc() && parsed.ptr == end && process > 0 && ::kill(process, 0) != 0 &&
        errno == ESRCH)
      std::filesystem::remove(entry.path(), ignored);
  }
}

TokenCacheWriter::TokenCacheWriter(const std::string& path) : path_(path), temporary_(temporary_of(path)) {
  make_directories(std::filesystem::path(path).parent_path().string());
  remove_abandoned_temporaries(path);
  file_ = std::make_unique<OutputFile>(temporary_);
  put(kMagic, 8);
  put(&kVersion, sizeof kVersion);
}

TokenCacheWriter::~TokenCacheWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

void TokenCacheWriter::put(const void* bytes, size_t size) {
  buffer_.append(static_cast<const char*>(bytes), size);
  written_ += static_cast<int64_t>(size);
  if (buffer_.size() >= kBufferBytes) flush();
}

void TokenCacheWriter::flush() {
  whole_.add(buffer_.data(), buffer_.size());
  file_->write(buffer_);
  buffer_.clear();
}

void TokenCacheWriter::add(const std::vector<int32_t>& ids, const std::vector<uint8_t>& supervised,
                           int64_t source, int64_t line) {
  FORGE_CHECK(!ids.empty() && ids.size() == supervised.size(),
              ids.size() << " ids, " << supervised.size() << " mask");
  FORGE_CHECK(!supervised[0], "the first token of an example cannot be predicted");
  CacheEntry entry{written_, line, static_cast<int32_t>(ids.size()), 0, static_cast<int32_t>(source), 0};
  for (uint8_t value : supervised) entry.supervised += value != 0;
  index_.push_back(entry);
  put(ids.data(), ids.size() * sizeof(int32_t));
  put(supervised.data(), supervised.size());
  const char zeros[4] = {};
  put(zeros, (4 - supervised.size() % 4) % 4);
  content_.add(static_cast<int64_t>(ids.size()));
  content_.add(ids.data(), ids.size() * sizeof(int32_t)).add(supervised.data(), supervised.size());
}

void TokenCacheWriter::finish(const Json& meta) {
  Footer footer;
  footer.index_offset = written_;
  footer.examples = static_cast<int64_t>(index_.size());
  put(index_.data(), index_.size() * sizeof(CacheEntry));
  const std::string text = dump_json(meta);
  footer.meta_offset = written_;
  footer.meta_size = static_cast<int64_t>(text.size());
  put(text.data(), text.size());
  put(&footer, offsetof(Footer, hash));
  flush();
  std::memcpy(footer.hash, whole_.hex().data(), sizeof footer.hash);
  std::memcpy(footer.magic, kEndMagic, sizeof footer.magic);
  file_->write(footer.hash, sizeof(Footer) - offsetof(Footer, hash));
  file_->sync_and_close();
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw Error(ErrorKind::environment, path_ + ": cannot replace: " + error.message());
  file_.reset();
  sync_directory(std::filesystem::path(path_).parent_path().string());
}

TokenCache::TokenCache(const std::string& path) : file(path) {
  auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::data, path + ": damaged token cache: " + problem)
        .hint("delete the file; it is made again from the data");
  };
  const int64_t size = file.size();
  if (size < kHeaderBytes + kFooterBytes || std::memcmp(file.data(), kMagic, 8) != 0)
    fail("it does not begin as one, or is cut off");
  int64_t version = 0;
  std::memcpy(&version, file.data() + 8, sizeof version);
  if (version != kVersion)
    fail("version " + std::to_string(version) + ", expected " + std::to_string(kVersion));

  Footer footer;
  std::memcpy(&footer, file.data() + size - kFooterBytes, sizeof footer);
  if (std::memcmp(footer.magic, kEndMagic, sizeof footer.magic) != 0) fail("cut off");
  const int64_t body = size - kFooterBytes;
  const bool ordered = kHeaderBytes <= footer.index_offset && footer.index_offset <= footer.meta_offset &&
                       footer.meta_offset <= body && footer.meta_size == body - footer.meta_offset &&
                       footer.examples >= 0 && footer.examples <= body / 32 &&
                       footer.examples * 32 == footer.meta_offset - footer.index_offset;
  if (!ordered) fail("its parts do not fit together");
  const auto hashed = static_cast<size_t>(body) + offsetof(Footer, hash);
  if (hash_hex(file.bytes().substr(0, hashed)) != std::string_view(footer.hash, sizeof footer.hash))
    fail("its content does not have the hash it states");

  meta = parse_json(
      file.bytes().substr(static_cast<size_t>(footer.meta_offset), static_cast<size_t>(footer.meta_size)),
      path, ErrorKind::data);
  if (!meta.is_object() || !meta.contains("sources") || !meta["sources"].is_array())
    fail("it lists no sources");
  index.resize(static_cast<size_t>(footer.examples));
  if (!index.empty())
    std::memcpy(index.data(), file.data() + footer.index_offset, index.size() * sizeof(CacheEntry));
  for (const CacheEntry& entry : index) {
    const bool inside = entry.length > 0 && entry.offset >= kHeaderBytes && entry.offset % 4 == 0 &&
                        entry.offset <= footer.index_offset - int64_t{entry.length} * 5;
    if (!inside || entry.supervised < 0 || entry.supervised >= entry.length || entry.source < 0 ||
        entry.source >= static_cast<int64_t>(meta["sources"].size()))
      fail("an entry of its index points outside");
  }
}

}  // namespace forge
