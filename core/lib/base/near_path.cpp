#include "core/lib/base/near_path.h"

#include <filesystem>
#include <vector>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns a name without its endings: "train" for train.jsonl.gz.
std::string stem_of(const std::string& name) { return lower(name.substr(0, name.find('.', 1))); }

std::string digits_of(const std::string& name) {
  std::string digits;
  for (const char c : name)
    if (c >= '0' && c <= '9') digits += c;
  return digits;
}

// True if both names have a number, and not the same: train-00000 is another file than train-00001,
// and SmolLM2-135M another model than SmolLM2-360M.
bool numbered_apart(const std::string& a, const std::string& b) {
  const std::string left = digits_of(a), right = digits_of(b);
  return !left.empty() && !right.empty() && left != right;
}

std::string near_name(const std::string& folder, const std::string& name) {
  std::vector<std::string> same_stem, names = names_in(folder);
  std::erase_if(names, [&](const std::string& other) { return numbered_apart(name, other); });
  for (const std::string& other : names)
    if (stem_of(other) == stem_of(name)) same_stem.push_back(other);
  if (same_stem.size() == 1) return same_stem[0];
  return nearest(name, same_stem.empty() ? names : same_stem);
}

}  // namespace

std::string near_path(const std::string& path) {
  if (path.find_first_of("*?[") != std::string::npos) return "";
  fs::path found;
  const fs::path parts(path);
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const fs::path next = found / *part;
    if (is_there(next)) {
      found = next;
      continue;
    }
    const std::string name = near_name(found.empty() ? "." : found.string(), part->string());
    if (name.empty()) return "";
    fs::path meant = found / name;
    for (++part; part != parts.end(); ++part) meant /= *part;
    return is_there(meant) ? meant.string() : (found / name).string();
  }
  return "";
}

std::string near_path_hint(const std::string& path, const std::string& otherwise) {
  const std::string meant = near_path(path);
  if (meant.empty()) return otherwise;
  return "did you mean " + meant + "?" + (otherwise.empty() ? "" : " " + otherwise);
}

}  // namespace forge
