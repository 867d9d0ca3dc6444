#pragma once
// Matches names in an adapter's settings with the paths of modules, as PEFT does.
//
//   names_module("q_proj", "model.layers.0.self_attn.q_proj")   // true
#include <string>

#include "core/lib/base/text.h"

namespace forge {

// True if the name is the path, or its last parts.
inline bool names_module(const std::string& name, const std::string& path) {
  return path == name || ends_with(path, "." + name);
}

// True if the path has the name as whole parts.
inline bool has_part(const std::string& name, const std::string& path) {
  return ("." + path + ".").find("." + name + ".") != std::string::npos;
}

// Returns the expression of a key of rank_pattern or alpha_pattern, which matches at the end of a
// path.
inline std::string pattern_of_key(const std::string& key) { return "(.*\\.)?(" + key + ")"; }

}  // namespace forge
