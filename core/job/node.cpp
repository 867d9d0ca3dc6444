#include "core/job/node.h"

#include <utility>

#include "core/lib/base/text.h"

namespace forge {

const Node* Node::find(std::string_view key) const {
  for (const Member& member : members)
    if (member.key == key) return &member.value;
  return nullptr;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

void Node::set(const std::string& key, Node value) {
  if (Node* old = find(key)) {
    *old = std::move(value);
    return;
  }
  Position at = value.at;
  members.push_back({key, std::move(at), std::move(value)});
}

Node scalar_node(std::string text, Position at, Quoting quoting) {
  return {.kind = NodeKind::scalar, .at = std::move(at), .scalar = std::move(text), .quoting = quoting};
}

Node list_node(std::vector<Node> items, Position at) {
  return {.kind = NodeKind::list, .at = std::move(at), .items = std::move(items)};
}

Node map_node(std::vector<Member> members, Position at) {
  return {.kind = NodeKind::map, .at = std::move(at), .members = std::move(members)};
}

std::string describe(const Node& node) {
  if (node.is_null()) return "nothing";
  if (node.is_list()) return "a list";
  if (node.is_map()) return "a map of keys";
  // A pasted text is shown as at most one line.
  std::string shown = node.scalar.substr(0, 60);
  while (!shown.empty() && !valid_utf8(shown)) shown.pop_back();
  if (shown.size() < node.scalar.size()) shown += "…";
  for (char& c : shown)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  return node.quoting == Quoting::plain ? shown : "\"" + shown + "\"";
}

Node parse_node(std::string_view text, const std::string& name) {
  return ends_with(lower(name), ".json") ? parse_json_node(text, name) : parse_yaml(text, name);
}

}  // namespace forge
