#pragma once
// Requests to the hub: the files of a repository, and the content of one file
// (huggingface.co/docs/hub/api).
//
//   HubServer server = hub_server(environment);
//   HubListing listing = list_files(server, {.name = "org/name"});
//   download(server, repository, listing.commit, listing.files[0], ".../blobs/HASH.incomplete", shown);
//
// If a connection is cut, or a server is busy (429) or fails (5xx), the request is sent again after
// growing waits; received bytes are kept. A server that keeps a connection open and sends next to
// nothing counts as failed.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/lib/hub/hub_cache.h"

namespace forge {

struct HubServer {
  std::string endpoint;  // HF_ENDPOINT, or "https://huggingface.co"
  std::string token;     // HF_TOKEN, or from the file of `hf auth login`; empty: no token
  std::function<void(const std::string& text)> say;  // told of each wait and its reason
};

struct HubFile {
  std::string path;   // "model.safetensors", "data/train.jsonl"
  int64_t size = -1;  // -1: not stated
  std::string hash;   // SHA-256 of large files, git's SHA-1 of others; empty: not stated
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

HubServer hub_server(const EnvironmentLookup& environment);

// Throws Error(environment) for a repository or revision that does not exist, a token that is
// missing or not sufficient, a network that fails, or an answer that is not the hub's.
HubListing list_files(const HubServer& server, const HubRepository& repository);
// Reads an answer's body. `url` and `name`, the repository's, are for messages.
HubListing listing_of(const std::string& body, const std::string& url, const std::string& name);

// Requests the size and hash of a file if the listing does not state them.
HubFile look_up(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file);

// Writes a file's content to `path`, after the bytes that are already there. Does not check its
// hash. `shown` gets the number of bytes so far.
void download(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file,
              const std::string& path, const std::function<void(int64_t bytes)>& shown);

}  // namespace forge
