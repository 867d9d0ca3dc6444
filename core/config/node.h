#pragma once
// A job file as read: one node type for YAML and JSON, where every key and value knows its place.
//
//   Node root = parse_node(text, "job.yaml");            // .json: strict JSON, anything else: YAML
//   const Node* rank = root.find("adapter")->find("rank");
//   rank->scalar;      // "16"
//   rank->at.text();   // "job.yaml:3:9"
//
// What a file may hold is less than what YAML allows: no anchors, aliases, tags, merge keys, duplicate keys
// or second documents; quotes close on their own line; spaces indent; at most 1 MiB, 64 levels and 100,000
// values. A scalar keeps its text: what it means (number, text, switch) is decided by the key that it belongs
// to.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/position.h"

namespace forge {

enum class NodeKind { null, scalar, list, map };

// Whether a scalar stood in quotes: "16" is text, 16 a number. On a command line or from the environment
// nobody can tell, so the key decides.
enum class Quoting { plain, quoted, either };

struct Member;

struct Node {
  NodeKind kind = NodeKind::null;
  Position at;
  std::string scalar;
  Quoting quoting = Quoting::plain;
  bool faulty = false;          // its fault has been reported: report no others
  std::vector<Node> items;      // of a list
  std::vector<Member> members;  // of a map, in the order of the file

  bool is_null() const { return kind == NodeKind::null; }
  bool is_scalar() const { return kind == NodeKind::scalar; }
  bool is_list() const { return kind == NodeKind::list; }
  bool is_map() const { return kind == NodeKind::map; }
  // The member's value; nullptr when there is none.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
};

struct Member {
  std::string key;
  Position key_at;
  Node value;
};

Node scalar_node(std::string text, Position at, Quoting quoting = Quoting::quoted);
Node list_node(std::vector<Node> items, Position at);
Node map_node(std::vector<Member> members, Position at);
// "a number", "a list", …: for messages.
std::string describe(const Node& node);

constexpr int64_t kNodeTextLimit = 1 << 20;
constexpr int kNodeDepthLimit = 64;
constexpr int64_t kNodeCountLimit = 100'000;
constexpr size_t kMapKeyLimit = 2000;  // of one map: finding a key looks at all of them

// Both throw JobErrors with the one fault that stopped them. `name` stands in every position.
Node parse_yaml(std::string_view text, const std::string& name);
Node parse_json_node(std::string_view text, const std::string& name);
// By the name's ending.
Node parse_node(std::string_view text, const std::string& name);

// A value that forge wrote itself (the job inside plan.json). All places are `name` without a line.
Node node_of(const nlohmann::ordered_json& value, const std::string& name);

}  // namespace forge
