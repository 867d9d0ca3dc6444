#include "core/lib/hub/hub_fetch.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "core/lib/base/clock.h"
#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/net/http.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

// Limit of waiting for another process's download that does not grow.
constexpr std::chrono::minutes kStalled{10};
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr int64_t kSpare = int64_t{64} << 20;  // free bytes to leave beside the download

bool ends_with_any(const std::string& path, std::initializer_list<const char*> endings) {
  const std::string name = lower(path);
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return ends_with(name, ending); });
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_note(const std::string& path) {
  const std::string name = lower(name_of(path));
  return starts_with(name, "readme") || starts_with(name, "license") || starts_with(name, ".");
}

std::vector<HubFile> filtered(const std::vector<HubFile>& files, const std::function<bool(const std::string&)>& takes) {
  std::vector<HubFile> taken;
  std::copy_if(files.begin(), files.end(), std::back_inserter(taken), [&](const HubFile& file) { return takes(file.path); });
  return taken;
}

// True for weights that transformers wrote. "consolidated" ones are the same weights in the
// original author's form.
bool is_weights(const std::string& path, const char* ending) {
  return path.find('/') == std::string::npos && ends_with(path, ending) && !starts_with(path, "consolidated") &&
         path.find("training_args") == std::string::npos && path.find("optimizer") == std::string::npos;
}

std::vector<HubFile> model_files(const HubRepository& repository, const std::vector<HubFile>& all) {
  const char* form = nullptr;
  for (const char* ending : {".safetensors", ".bin"})
    if (!form && std::any_of(all.begin(), all.end(), [&](const HubFile& file) { return is_weights(file.path, ending); })) form = ending;
  if (!form) {
    std::vector<std::string> blocks;
    for (const HubFile& file : all)
      if (ends_with(file.path, ".gguf")) blocks.push_back(file.path);
    if (blocks.empty()) throw Error(ErrorKind::environment, repository.name + ": holds no weights that forge reads (.safetensors, .bin or .gguf)");
    throw Error(ErrorKind::environment, repository.name + ": holds " + format_count(static_cast<int64_t>(blocks.size())) + " GGUF files: " + join(blocks, ", "))
        .hint("name one: model: {repo: " + repository.name + ", path: " + blocks[0] + "}, or --include " + blocks[0]);
  }
  return filtered(all, [&](const std::string& path) {
    if (path.find('/') != std::string::npos) return false;
    return is_weights(path, form) || ends_with_any(path, {".json", ".jinja", ".model", "merges.txt", "vocab.txt"}) ||
           starts_with(lower(path), "license");
  });
}

std::vector<HubFile> data_files(const HubRepository& repository, const std::vector<HubFile>& all) {
  std::vector<HubFile> files = filtered(all, [](const std::string& path) {
    return !is_note(path) && ends_with_any(path, {".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz",
                                                  ".txt.gz", ".jsonl.zst", ".json.zst", ".csv.zst", ".txt.zst"}) &&
           name_of(path) != "dataset_infos.json";
  });
  if (files.empty()) throw Error(ErrorKind::environment, repository.name + ": holds no data files that forge reads");
  return files;
}

// Holds the lock that other programs, huggingface_hub among them, hold while they download a file.
// Waits for them as long as `partial` grows.
class FileLock {
 public:
  FileLock(const std::string& path, const std::string& partial, const HubServer& server) {
    make_directories(fs::path(path).parent_path().string());
    handle_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (handle_ < 0) throw Error(ErrorKind::environment, path + ": cannot be opened: " + std::strerror(errno));
    if (const int error = wait(path, partial, server); error != 0) {
      ::close(handle_);
      refuse(path, error);
    }
  }
  ~FileLock() { ::close(handle_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  // Returns 0, or the errno that says why there is no lock.
  int wait(const std::string& path, const std::string& partial, const HubServer& server) const {
    auto deadline = Clock::now() + kStalled;
    int64_t bytes = -1;
    for (bool said = false; ::flock(handle_, LOCK_EX | LOCK_NB) != 0; said = true) {
      if ((errno != EWOULDBLOCK && errno != EINTR) || Clock::now() > deadline) return errno;
      if (!said && server.say) server.say("waiting for another process that holds " + path);
      const int64_t now = file_exists(partial) ? file_size(partial) : 0;
      if (std::exchange(bytes, now) != now) deadline = Clock::now() + kStalled;
      std::this_thread::sleep_for(kLookAgain);
    }
    return 0;
  }
  [[noreturn]] static void refuse(const std::string& path, int error) {
    if (error != EWOULDBLOCK) throw Error(ErrorKind::environment, path + ": cannot be locked: " + std::strerror(error));
    throw Error(ErrorKind::environment, path + ": cannot be locked: another process has held it for " +
                                            std::to_string(kStalled.count()) + " minutes without a byte")
        .hint("end that process (fuser " + path + " names it), and fetch again");
  }

  int handle_ = -1;
};

// Downloads blobs/HASH, whose content has that hash.
void bring(const HubServer& server, const HubCache& cache, const HubRepository& repository, const std::string& commit, const HubFile& file,
           const std::function<void(int64_t)>& shown) {
  const std::string folder = cache.folder(repository), blob = folder + "/blobs/" + file.hash, partial = blob + ".incomplete";
  const FileLock lock(cache.root() + "/.locks/" + fs::path(folder).filename().string() + "/" + file.hash + ".lock", partial, server);
  if (file_exists(blob)) return;
  const Digest digest = file.hash.size() == 64 ? Digest::sha256 : Digest::git_blob;
  for (const bool last : {false, true}) {
    const bool fresh = !file_exists(partial);
    download(server, repository, commit, file, partial, shown);
    if (file_digest(partial, digest) == file.hash) break;
    fs::remove(partial);
    if (fresh || last)
      throw Error(ErrorKind::environment, repository.name + "/" + file.path + ": the download does not have the stated hash " + file.hash)
          .hint("nothing of it was kept; try again, or ask another server: HF_ENDPOINT");
  }
  fs::rename(partial, blob);
  sync_directory(folder + "/blobs");
}

// Links snapshots/COMMIT/FILE to blobs/HASH, by a relative link, as huggingface_hub does.
void link(const std::string& folder, const std::string& commit, const HubFile& file) {
  const fs::path place = fs::path(folder) / "snapshots" / commit / file.path;
  make_directories(place.parent_path().string());
  const fs::path target = (fs::path(folder) / "blobs" / file.hash).lexically_relative(place.parent_path());
  std::error_code error;
  if (fs::read_symlink(place, error) == target) return;
  const fs::path temporary = place.parent_path() / ("." + place.filename().string() + "." + std::to_string(::getpid()));
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary);
  fs::rename(temporary, place);
}

}  // namespace

std::vector<HubFile> wanted_files(const HubRepository& repository, const HubListing& listing, const FetchWishes& wishes) {
  if (wishes.include.empty())
    return repository.kind == HubKind::model ? model_files(repository, listing.files) : data_files(repository, listing.files);
  std::set<std::string> taken;
  for (const std::string& pattern : wishes.include) {
    bool found = false;
    for (const HubFile& file : listing.files)
      if (::fnmatch(pattern.c_str(), file.path.c_str(), 0) == 0) taken.insert(file.path), found = true;
    if (found) continue;
    std::vector<std::string> names;
    for (const HubFile& file : listing.files) names.push_back(file.path);
    throw Error(ErrorKind::environment, repository.name + ": nothing in it matches " + pattern + did_you_mean(pattern, names));
  }
  return filtered(listing.files, [&](const std::string& path) { return taken.contains(path); });
}

// Adds a size that a server states: unknown below 0, and perhaps more than there can be.
static void add_bytes(int64_t& sum, int64_t size) {
  if (__builtin_add_overflow(sum, std::max<int64_t>(0, size), &sum)) sum = INT64_MAX;
}

FetchedRepository fetch(const HubServer& server, const HubCache& cache, const HubRepository& repository, const FetchWishes& wishes,
              const FetchProgress& progress) {
  const HubListing listing = list_files(server, repository);
  std::vector<HubFile> files = wanted_files(repository, listing, wishes);
  const std::string folder = cache.folder(repository);
  make_directories(folder + "/blobs");
  FetchedRepository fetched{repository, listing.commit, folder + "/snapshots/" + listing.commit, static_cast<int64_t>(files.size())};
  int64_t missing = 0;
  for (HubFile& file : files) {
    if (file.hash.empty() || file.size < 0) file = look_up(server, repository, listing.commit, file);
    add_bytes(fetched.bytes, file.size);
    if (!file_exists(folder + "/blobs/" + file.hash)) add_bytes(missing, file.size);
  }
  if (const int64_t free = free_disk_bytes(folder); missing > free - kSpare)
    throw Error(ErrorKind::environment, folder + ": " + format_bytes(missing) + " need to be downloaded, " + format_bytes(free) + " are free")
        .hint("set HF_HOME to a folder on another disk");
  int64_t before = 0;
  for (const HubFile& file : files) {
    const bool here = file_exists(folder + "/blobs/" + file.hash);
    bring(server, cache, repository, listing.commit, file, [&](int64_t bytes) {
      if (progress) progress(file.path, before + bytes, fetched.bytes);
    });
    before += std::max<int64_t>(0, file.size);
    if (!here) fetched.downloaded += file_size(folder + "/blobs/" + file.hash);
    link(folder, listing.commit, file);
  }
  if (repository.revision != listing.commit) {
    const fs::path ref = fs::path(folder) / "refs" / repository.revision;
    make_directories(ref.parent_path().string());
    write_file_durably(ref.string(), listing.commit);
  }
  return fetched;
}

}  // namespace forge
