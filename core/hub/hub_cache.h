#pragma once
// Repositories of the Hugging Face hub on this machine: the cache that huggingface_hub, transformers and `forge fetch` share.
//
//   HubCache cache(environment);
//   cache.snapshot({.name = "HuggingFaceTB/SmolLM2-135M"});   // ".../models--HuggingFaceTB--SmolLM2-135M/snapshots/93efa2f…"
//
// Layout (huggingface_hub, "Understand caching"): KIND--OWNER--NAME/{blobs/ETAG, refs/REVISION, snapshots/COMMIT/FILE}, where
// a snapshot's files are links to blobs. Reads the disk only.
#include <functional>
#include <optional>
#include <string>

namespace forge {

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

enum class HubKind { model, dataset };

struct HubRepository {
  HubKind kind = HubKind::model;
  std::string name;               // "org/name", of the oldest models "gpt2"
  std::string revision = "main";  // a branch, a tag or a commit
};

// Whether a text can be a repository's name, as the hub allows them.
bool is_hub_name(const std::string& text);
// Of a branch, tag or commit: no path out of refs/.
bool is_hub_revision(const std::string& text);

class HubCache {
 public:
  // HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub.
  explicit HubCache(const EnvironmentLookup& environment);

  const std::string& root() const { return root_; }
  // ROOT/models--org--name
  std::string folder(const HubRepository& repository) const;
  // The commit that the revision names here; empty when nothing of it was fetched.
  std::string commit(const HubRepository& repository) const;
  // The folder of its files, where it is or, when it was not fetched, would be looked for.
  std::string snapshot(const HubRepository& repository) const;

 private:
  std::string root_;
};

}  // namespace forge
