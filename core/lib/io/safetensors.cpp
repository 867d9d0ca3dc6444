#include "core/lib/io/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/faults.h"
#include "core/lib/io/json.h"
#include "core/lib/io/pickle.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongestIndex = 100'000'000;
constexpr size_t kMostShards = 10'000;

// One mapped file and its header.
struct Shard {
  MappedFile file;
  SafetensorsHeader header;
};

Shard open_shard(const std::string& path, Data data) {
  MappedFile file(path);
  if (pickle_content(file.bytes().substr(0, 16))) refuse_pickle(path);
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), path);
  const bool short_file = file.size() < header.file_bytes;
  if (file.size() > header.file_bytes || (short_file && data == Data::required))
    throw Error(ErrorKind::environment, path + ": has " + std::to_string(file.size()) +
                                            " bytes, but its header needs " + "exactly " +
                                            std::to_string(header.file_bytes))
        .hint(short_file ? "the file is cut off: copy or download it again" : "");
  return {std::move(file), std::move(header)};
}

// Tensors of one or more shards, in the order of the shards and of the data within them.
class MappedSafetensors : public SafetensorsFile {
 public:
  explicit MappedSafetensors(std::vector<Shard> shards) : shards_(std::move(shards)) {
    Hasher hasher;
    for (size_t s = 0; s < shards_.size(); ++s) {
      for (size_t t = 0; t < shards_[s].header.tensors.size(); ++t) {
        tensors_.push_back(shards_[s].header.tensors[t]);
        places_.push_back({s, shards_[s].header.begins[t]});
      }
      hasher.add(std::string_view(shards_[s].header.hash));
    }
    hash_ = shards_.size() == 1 ? shards_[0].header.hash : hasher.hex();
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::map<std::string, std::string>& metadata() const override { return shards_[0].header.metadata; }
  std::string header_hash() const override { return hash_; }

  int64_t file_bytes() const override {
    int64_t sum = 0;
    for (const Shard& shard : shards_) sum += shard.file.size();
    return sum;
  }
  bool data_missing() const override {
    return std::any_of(shards_.begin(), shards_.end(),
                       [](const Shard& shard) { return shard.file.size() < shard.header.file_bytes; });
  }

  std::string_view bytes(size_t index) const override {
    const Place& place = places_.at(index);
    const MappedFile& file = shards_[place.shard].file;
    const int64_t size = bytes_of(tensors_[index].dtype, tensors_[index].count());
    if (place.begin > file.size() || size > file.size() - place.begin)
      throw Error(ErrorKind::environment, file.path() + ": the data of tensor " +
                                              show_name(tensors_[index].name) +
                                              " is not there, the file holds headers only");
    return file.bytes().substr(static_cast<size_t>(place.begin), static_cast<size_t>(size));
  }

 private:
  struct Place {
    size_t shard;
    int64_t begin;
  };
  std::vector<Shard> shards_;
  std::vector<TensorInfo> tensors_;
  std::vector<Place> places_;
  std::string hash_;
};

// Reads tensor name -> shard name, in the order of the index.
std::vector<std::pair<std::string, std::string>> read_index(const std::string& path) {
  Json json = parse_json(read_file(path, kLongestIndex, ErrorKind::environment), path, ErrorKind::environment,
                         {8, 4'000'000});
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw Error(ErrorKind::environment, path + ": expected an object with \"weight_map\": {tensor: file}");
  const Json& map = json["weight_map"];
  std::vector<std::pair<std::string, std::string>> entries;
  Faults faults(path);
  for (auto item = map.begin(); item != map.end(); ++item) {
    if (!item->is_string()) {
      faults.add("weight_map " + show_name(item.key()) + ": expected the name of a shard");
      continue;
    }
    const auto& shard = item->get_ref<const std::string&>();
    if (!safe_file_name(shard)) {
      faults.add("weight_map " + show_name(item.key()) + ": the shard name " + show_name(shard) +
                 " is not a plain file name in the same folder");
    } else if (pickle_name(shard)) {
      refuse_pickle((fs::path(path).parent_path() / shard).string());
    }
    entries.emplace_back(item.key(), shard);
  }
  faults.raise(ErrorKind::environment);
  if (entries.empty()) throw Error(ErrorKind::environment, path + ": weight_map names no tensor");
  return entries;
}

std::vector<std::string> names_of_shards(const std::vector<std::pair<std::string, std::string>>& index) {
  std::set<std::string> names;
  for (const auto& entry : index) names.insert(entry.second);
  return {names.begin(), names.end()};
}

bool inside(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

// Checks both ways: every tensor of the index in its shard, every tensor of a shard in the index.
void check_agreement(const std::string& path, const std::vector<std::pair<std::string, std::string>>& index,
                     const std::vector<std::string>& names, const std::vector<Shard>& shards) {
  Faults faults(path);
  std::map<std::string_view, std::string_view> found;
  for (size_t s = 0; s < shards.size(); ++s)
    for (const TensorInfo& tensor : shards[s].header.tensors)
      if (!found.emplace(tensor.name, names[s]).second)
        faults.add("tensor " + show_name(tensor.name) + " is in " + std::string(found[tensor.name]) +
                   " and also in " + names[s]);
  for (const auto& [tensor, shard] : index) {
    auto place = found.find(tensor);
    if (place == found.end()) {
      faults.add("tensor " + show_name(tensor) + " is missing from " + shard);
    } else {
      if (place->second != shard)
        faults.add("tensor " + show_name(tensor) + " is in " + std::string(place->second) +
                   ", expected in " + shard);
      found.erase(place);
    }
  }
  for (const auto& [tensor, shard] : found)
    faults.add("tensor " + show_name(tensor) + " of " + std::string(shard) + " is not in the index");
  faults.raise(ErrorKind::environment,
               "index and shards belong to different models or versions: download them again");
}

std::vector<Shard> open_shards(const std::string& path, Data data) {
  const auto index = read_index(path);
  const fs::path folder = fs::path(path).parent_path();
  const std::vector<std::string> names = names_of_shards(index);
  if (names.size() > kMostShards)
    throw Error(ErrorKind::environment, path + ": names " + format_count(static_cast<int64_t>(names.size())) +
                                            " shards, the limit is " + format_count(kMostShards));
  Faults missing(path);
  for (const std::string& name : names)
    if (!fs::exists(fs::symlink_status(folder / name)))
      missing.add("the shard " + name + " is not in the folder");
  missing.raise(ErrorKind::environment, "download the missing files");
  std::vector<Shard> shards;
  for (const std::string& name : names) {
    require_link_inside((folder / name).string(), folder.string());
    shards.push_back(open_shard((folder / name).string(), data));
  }
  check_agreement(path, index, names, shards);
  return shards;
}

}  // namespace

std::vector<std::string> shard_names(const std::string& index_path) {
  return names_of_shards(read_index(index_path));
}

void require_link_inside(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (error) return;  // opening it says why
  const fs::path home = fs::canonical(folder.empty() ? "." : folder, error);
  if (error) return;
  const bool snapshot = home.parent_path().filename() == "snapshots";
  if (inside(target, home) || (snapshot && inside(target, home.parent_path().parent_path() / "blobs")))
    return;
  throw Error(ErrorKind::environment, path + ": links to " + target.string() + ", outside its folder")
      .hint("copy the file into the folder");
}

std::unique_ptr<SafetensorsFile> open_safetensors(const std::string& path, Data data) {
  if (pickle_name(fs::path(path).filename().string())) refuse_pickle(path);
  if (ends_with(path, ".index.json")) return std::make_unique<MappedSafetensors>(open_shards(path, data));
  std::vector<Shard> shards;
  shards.push_back(open_shard(path, data));
  return std::make_unique<MappedSafetensors>(std::move(shards));
}

}  // namespace forge
