#pragma once
// A job file as read: one node type for YAML and JSON, in which every key and value has a position.
//
//   Node root = parse_node(text, "job.yaml");            // .json: strict JSON, anything else: YAML
//   const Node* rank = root.find("adapter")->find("rank");
//   rank->scalar;      // "16"
//   rank->at.text();   // "job.yaml:3:9"
//
// A file may hold less than YAML allows: no anchors, aliases, tags, merge keys, duplicate keys or
// second documents; quotes close on their own line; spaces indent; at most 1 MiB, 64 levels and
// 100,000 values. A scalar keeps its text. Its meaning (number, text, boolean) is decided by the
// key that it belongs to.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/lib/base/position.h"

namespace forge {

enum class NodeKind { null, scalar, list, map };

// Quotes of a scalar: "16" is text, 16 a number. On a command line or from the environment this is
// unknown, so the key decides.
enum class Quoting { plain, quoted, either };

struct Member;

struct Node {
  NodeKind kind = NodeKind::null;
  Position at;
  std::string scalar;
  Quoting quoting = Quoting::plain;
  bool faulty = false;          // its fault has been reported: report no others
  std::vector<Node> items;      // items of a list
  std::vector<Member> members;  // members of a map, in the order of the file

  bool is_null() const { return kind == NodeKind::null; }
  bool is_scalar() const { return kind == NodeKind::scalar; }
  bool is_list() const { return kind == NodeKind::list; }
  bool is_map() const { return kind == NodeKind::map; }
  // Returns the member's value; nullptr if there is none.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  // Sets or replaces a member. A new one stands at the position of its value.
  void set(const std::string& key, Node value);
};

struct Member {
  std::string key;
  Position key_at;
  Node value;
};

Node scalar_node(std::string text, Position at, Quoting quoting = Quoting::quoted);
Node list_node(std::vector<Node> items, Position at);
Node map_node(std::vector<Member> members, Position at);
// Returns "a number", "a list", …, for messages.
std::string describe(const Node& node);

constexpr int64_t kNodeTextLimit = 1 << 20;
constexpr int kNodeDepthLimit = 64;
constexpr int64_t kNodeCountLimit = 100'000;
constexpr size_t kMapKeyLimit = 2000;  // keys of one map: finding a key looks at all of them

// Both throw JobErrors with the one fault that stopped them. `name` is the file in every position.
Node parse_yaml(std::string_view text, const std::string& name);
Node parse_json_node(std::string_view text, const std::string& name);
// Parses JSON or YAML, by the name's ending.
Node parse_node(std::string_view text, const std::string& name);

// Returns a value that forge wrote itself (the job inside plan.json) as a node. All positions are
// `name` without a line.
Node node_of(const nlohmann::ordered_json& value, const std::string& name);

}  // namespace forge
