#pragma once
// The hub's paths that forge asks: what a repository holds, and one file of it (huggingface.co/docs/hub/api).
//
//   HubServer server = hub_server(environment);
//   HubListing listing = list_files(server, {.name = "org/name"});
//   download(server, repository, listing.commit, listing.files[0], ".../blobs/HASH.incomplete", shown);
//
// A connection that is cut, a server that is busy (429) or fails (5xx) is asked again, later and later; bytes that came are kept.
// One that keeps a connection open and sends next to nothing counts as failed.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/hub/hub_cache.h"

namespace forge {

struct HubServer {
  std::string endpoint;  // HF_ENDPOINT, or "https://huggingface.co"
  std::string token;     // HF_TOKEN, or the file that `hf auth login` writes; empty: asked without
  std::function<void(const std::string& text)> say;  // of each wait, and its reason
};

struct HubFile {
  std::string path;   // "model.safetensors", "data/train.jsonl"
  int64_t size = -1;  // -1: not said
  std::string hash;   // SHA-256 of large files, git's SHA-1 of others; empty: not said
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

HubServer hub_server(const EnvironmentLookup& environment);

// Throws Error(environment): no such repository or revision, a token that is missing or not enough, a network that fails, an
// answer that is not the hub's.
HubListing list_files(const HubServer& server, const HubRepository& repository);
// Reads an answer's body; `url` and `name`, the repository's, are for messages.
HubListing listing_of(const std::string& body, const std::string& url, const std::string& name);

// Asks for the size and hash of a file that the listing told without.
HubFile look_up(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file);

// Writes a file's content to `path`, after what stands there already. Does not check its hash. `shown` gets the bytes so far.
void download(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file,
              const std::string& path, const std::function<void(int64_t bytes)>& shown);

}  // namespace forge
