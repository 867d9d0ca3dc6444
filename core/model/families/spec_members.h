#pragma once
// The members of a ModelSpec that a description of a family (description.h) can name: it sets them,
// and its layer asks for them.
//
//   find_flag("qkv_bias")->of(spec)
#include <string>
#include <variant>
#include <vector>

#include "core/model/families/model_spec.h"

namespace forge {

// A member that a description may set. Numbers lie in [least, most].
struct SpecMember {
  const char* name;
  std::variant<bool ModelSpec::*, double ModelSpec::*, int64_t ModelSpec::*> member;
  double least = 0, most = 1;  // of a number

  bool is_flag() const { return std::holds_alternative<bool ModelSpec::*>(member); }
  bool is_integer() const { return std::holds_alternative<int64_t ModelSpec::*>(member); }
};
// Returns the member of that name; null for a name that descriptions do not know.
const SpecMember* find_member(const std::string& name);
std::vector<std::string> member_names();

void set_member(ModelSpec& spec, const SpecMember& member, const Json& value);
Json value_of_member(const ModelSpec& spec, const SpecMember& member);

// A condition of a line of the layer: a flag of the spec, or a property of the layer.
struct LayerFlag {
  std::string name;
  bool ModelSpec::*member = nullptr;  // null: a property of the layer
  bool (ModelSpec::*property)(int64_t layer) const = nullptr;

  bool of(const ModelSpec& spec, int64_t layer) const {
    return member ? spec.*member : (spec.*property)(layer);
  }
};
// Returns the flag of that name; null for an unknown one.
const LayerFlag* find_flag(const std::string& name);
std::vector<std::string> flag_names();

// A width as a description writes it: "q_width + 2 kv_width", "3 hidden", "64".
struct SizeTerm {
  int64_t factor = 1;
  int64_t (*size)(const ModelSpec& spec) = nullptr;  // null: the factor alone
};
using SizeSum = std::vector<SizeTerm>;
constexpr int64_t kMostWidth = 1 << 22;
// Returns the width for these sizes, at most kMostWidth + 1.
int64_t width_of(const SizeSum& sum, const ModelSpec& spec);
// Returns the size of that name; null for an unknown one.
int64_t (*find_size(const std::string& name))(const ModelSpec& spec);
std::vector<std::string> size_names();

}  // namespace forge
