#pragma once
// Brings a repository of the hub, or the part of it that forge reads, into the cache on this machine.
//
//   FetchedRepository fetched = fetch(server, cache, {.name = "org/name"}, {}, progress);
//   fetched.folder;   // what model.path would be
//
// A file appears under its hash once its bytes have it; the revision points to the commit once all of its files are there.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/hub/hub_api.h"
#include "core/hub/hub_cache.h"

namespace forge {

struct FetchWishes {
  std::vector<std::string> include;  // patterns of files, as a shell's (* also crosses folders); empty: what forge reads
};

struct FetchedRepository {
  HubRepository repository;
  std::string commit, folder;
  int64_t files = 0, bytes = 0;  // of the repository that are wanted
  int64_t downloaded = 0;        // bytes that were not here
};

struct FetchProgress {
  std::function<void(const std::string& file, int64_t done, int64_t total)> shown;  // bytes of all files
};

// Of a listing the files that forge reads. Weights also stand in other forms beside safetensors, which are left out. Throws
// Error(environment) when a pattern matches nothing, or nothing is of use.
std::vector<HubFile> wanted_files(const HubRepository& repository, const HubListing& listing, const FetchWishes& wishes);

// Throws Error(environment): what hub_api.h names, a hash that is not the stated one, a disk without room.
FetchedRepository fetch(const HubServer& server, const HubCache& cache, const HubRepository& repository, const FetchWishes& wishes,
              const FetchProgress& progress);

}  // namespace forge
