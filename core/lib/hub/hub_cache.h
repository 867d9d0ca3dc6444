#pragma once
// Repositories of the Hugging Face hub on this machine: the cache shared by huggingface_hub,
// transformers and `forge fetch`.
//
//   HubCache cache(environment);
//   cache.snapshot({.name = "HuggingFaceTB/SmolLM2-135M"});   // ".../models--HuggingFaceTB--SmolLM2-135M/snapshots/93efa2f…"
//
// Layout (huggingface_hub, "Understand caching"): KIND--OWNER--NAME/{blobs/ETAG, refs/REVISION,
// snapshots/COMMIT/FILE}, where a snapshot's files are links to blobs. HubCache only reads the
// disk.
#include <functional>
#include <optional>
#include <string>

namespace forge {

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

enum class HubKind { model, dataset };

struct HubRepository {
  HubKind kind = HubKind::model;
  std::string name;               // "org/name"; for the oldest models "gpt2"
  std::string revision = "main";  // a branch, a tag or a commit
};

// Returns the hub's folder of this user: HF_HOME, XDG_CACHE_HOME/huggingface or
// ~/.cache/huggingface.
std::string hub_home(const EnvironmentLookup& environment);
// True for the hash by which git names a commit.
bool is_commit(const std::string& text);
// True if a text can be a repository's name by the hub's rules.
bool is_hub_name(const std::string& text);
// True for a branch, tag or commit that is no path out of refs/.
bool is_hub_revision(const std::string& text);

class HubCache {
 public:
  // Finds the cache: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
  // ~/.cache/huggingface/hub.
  explicit HubCache(const EnvironmentLookup& environment);

  const std::string& root() const { return root_; }
  // Returns ROOT/models--org--name.
  std::string folder(const HubRepository& repository) const;
  // Returns the commit that the revision names here; empty if nothing of it was fetched.
  std::string commit(const HubRepository& repository) const;
  // Returns the folder of its files: where it is or, if it was not fetched, where it would be
  // looked for.
  std::string snapshot(const HubRepository& repository) const;

 private:
  std::string root_;
};

}  // namespace forge
