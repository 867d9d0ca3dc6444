#include "core/job/hub_paths.h"

#include <filesystem>

#include "core/lib/hub/hub_cache.h"

namespace forge {
namespace {

// Returns the text of a member; null if it is absent, or is no text and reported elsewhere.
const Node* text_of(const Node& section, const char* key) {
  const Node* node = section.find(key);
  return node && node->is_scalar() && !node->scalar.empty() ? node : nullptr;
}

struct Rewriting {
  HubCache cache;
  std::map<std::string, Origin>& derived;
  Diagnostics& faults;

  void section(Node& section, const std::string& key, HubKind kind) {
    if (!section.is_map()) return;
    const Node *repo = text_of(section, "repo"), *revision = text_of(section, "revision");
    if (!repo) {
      if (revision)
        faults.add(revision->at, key + ".revision", "has no effect: there is no " + key + ".repo", "name the repository, or remove it");
      return;
    }
    if (!is_hub_name(repo->scalar)) {
      faults.add(repo->at, key + ".repo", "\"" + repo->scalar + "\" is not the name of a hub repository, expected org/name",
                 "for a folder or file on this machine use " + key + ".path");
      repo_is_faulty(section);
      return;
    }
    HubRepository repository{kind, repo->scalar};
    if (revision) repository.revision = revision->scalar;
    if (!is_hub_revision(repository.revision)) {
      faults.add(revision->at, key + ".revision", "\"" + revision->scalar + "\" is not a branch, a tag or a commit");
      repo_is_faulty(section);
      return;
    }
    const Position at = repo->at;
    Node* path = section.find("path");
    const std::string inside = path && path->is_scalar() ? path->scalar : "";
    if (std::filesystem::path(inside).is_absolute()) return;
    const std::string folder = cache.snapshot(repository);
    const std::string whole = inside.empty() ? folder : folder + "/" + inside;
    Node value = scalar_node(std::filesystem::absolute(whole).lexically_normal().string(), at);
    section.set("path", std::move(value));
    derived[key + ".path"] = {OriginKind::derived, at, repository.name + " in the hub's cache (" + at.text() + ")"};
  }

  // Marks a missing path as faulty, so that it is not reported as well.
  static void repo_is_faulty(Node& section) {
    if (section.find("path")) return;
    Node path = scalar_node("", section.at);
    path.faulty = true;
    section.set("path", std::move(path));
  }
};

}  // namespace

void rewrite_hub_names(Node& root, const Environment& environment, std::map<std::string, Origin>& derived, Diagnostics& faults) {
  Rewriting rewriting{HubCache(environment), derived, faults};
  if (Node* model = root.find("model")) rewriting.section(*model, "model", HubKind::model);
  Node* data = root.find("data");
  if (!data || !data->is_map()) return;
  for (const char* list : {"train", "eval"}) {
    Node* sources = data->find(list);
    if (!sources || !sources->is_list()) continue;
    for (size_t i = 0; i < sources->items.size(); ++i)
      rewriting.section(sources->items[i], std::string("data.") + list + "[" + std::to_string(i) + "]", HubKind::dataset);
  }
}

}  // namespace forge
