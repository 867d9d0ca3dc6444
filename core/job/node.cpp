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

Node scalar_node(std::string text, Position at, Quoting quoting) {
  Node node;
  node.kind = NodeKind::scalar;
  node.at = std::move(at);
  node.scalar = std::move(text);
  node.quoting = quoting;
  return node;
}

Node list_node(std::vector<Node> items, Position at) {
  Node node;
  node.kind = NodeKind::list;
  node.at = std::move(at);
  node.items = std::move(items);
  return node;
}

Node map_node(std::vector<Member> members, Position at) {
  Node node;
  node.kind = NodeKind::map;
  node.at = std::move(at);
  node.members = std::move(members);
  return node;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case NodeKind::null:
      return "nothing";
    case NodeKind::list:
      return "a list";
    case NodeKind::map:
      return "a map of keys";
    case NodeKind::scalar:
      break;
  }
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
