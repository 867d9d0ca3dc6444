#pragma once
// Fetches a repository of the hub, or the part of it that forge reads, into the cache on this
// machine.
//
//   FetchedRepository fetched = fetch(server, cache, {.name = "org/name"}, {}, progress);
//   fetched.folder;   // what model.path would be
//
// A file appears under its hash once its content has that hash. The revision points to the commit
// once all of its files are there.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/lib/hub/hub_api.h"
#include "core/lib/hub/hub_cache.h"

namespace forge {

struct FetchWishes {
  // Shell patterns of files (* also crosses folders); empty: what forge reads.
  std::vector<std::string> include;
};

struct FetchedRepository {
  HubRepository repository;
  std::string commit, folder;
  int64_t files = 0, bytes = 0;  // files and bytes that are wanted
  int64_t downloaded = 0;        // bytes that were not in the cache
};

// Gets the bytes of all files; may be empty.
using FetchProgress = std::function<void(const std::string& file, int64_t done, int64_t total)>;

// Returns the files of a listing that forge reads. Weights in other forms than safetensors are left
// out if safetensors exist. Throws Error(environment) if a pattern matches nothing, or no file is
// of use.
std::vector<HubFile> wanted_files(const HubRepository& repository, const HubListing& listing, const FetchWishes& wishes);

// Throws Error(environment) as hub_api.h does, and for a hash that is not the stated one or a disk
// without room.
FetchedRepository fetch(const HubServer& server, const HubCache& cache, const HubRepository& repository, const FetchWishes& wishes,
              const FetchProgress& progress);

}  // namespace forge
