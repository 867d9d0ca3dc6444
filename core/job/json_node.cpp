// Reads JSON as nodes with positions. parse_json has already refused everything invalid, so the
// second pass only notes where each token is: nlohmann's events come in text order, and a cursor
// follows them.
#include "core/job/diagnostics.h"
#include "core/job/node.h"
#include "core/lib/base/placed_error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {
namespace {

class NodeBuilder : public nlohmann::json_sax<Json> {
 public:
  NodeBuilder(std::string_view text, const std::string& name) : text_(text), here_{name} {}
  Node take() { return std::move(root_); }

  bool null() override { return add(token(NodeKind::null)); }
  bool boolean(bool) override { return add(token(NodeKind::scalar)); }
  bool number_integer(number_integer_t) override { return add(token(NodeKind::scalar)); }
  bool number_unsigned(number_unsigned_t) override { return add(token(NodeKind::scalar)); }
  bool number_float(number_float_t, const string_t&) override { return add(token(NodeKind::scalar)); }
  bool string(string_t& value) override {
    Node node = token(NodeKind::scalar);
    node.scalar = std::move(value);
    node.quoting = Quoting::quoted;
    return add(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(NodeKind::map); }
  bool start_array(std::size_t) override { return open(NodeKind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (stack_.back().node.members.size() >= kMapKeyLimit)
      throw JobErrors(
          {{here(), "", "more than " + format_count(kMapKeyLimit) + " keys in one map", ""}});
    stack_.back().key_at = token(NodeKind::scalar).at;
    stack_.back().key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  struct Open {
    Node node;
    std::string key;
    Position key_at;
  };

  Position here() const { return {here_.file, here_.line, here_.column}; }
  void step() { here_.pass(text_[cursor_++]); }
  // Returns a node at the next token's first byte. Leaves the cursor after the token.
  Node token(NodeKind kind) {
    while (cursor_ < text_.size() &&
           std::string_view(" \t\r\n,:").find(text_[cursor_]) != std::string_view::npos)
      step();
    Node node{.kind = kind, .at = here()};
    size_t begin = cursor_;
    char first = cursor_ < text_.size() ? text_[cursor_] : ' ';
    if (first == '"') {
      step();
      while (cursor_ < text_.size() && text_[cursor_] != '"') {
        if (text_[cursor_] == '\\') step();
        step();
      }
      step();
    } else if (std::string_view("[]{}").find(first) != std::string_view::npos) {
      step();
    } else {
      while (cursor_ < text_.size() &&
             std::string_view(" \t\r\n,:[]{}").find(text_[cursor_]) == std::string_view::npos)
        step();
      node.scalar = text_.substr(begin, cursor_ - begin);
    }
    return node;
  }
  bool open(NodeKind kind) {
    stack_.push_back({token(kind)});
    return true;
  }
  bool close() {
    token(NodeKind::null);
    Node done = std::move(stack_.back().node);
    stack_.pop_back();
    return add(std::move(done));
  }
  bool add(Node value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Open& parent = stack_.back();
    if (parent.node.is_list())
      parent.node.items.push_back(std::move(value));
    else
      parent.node.members.push_back({std::move(parent.key), std::move(parent.key_at), std::move(value)});
    return true;
  }

  std::string_view text_;
  PlaceInFile here_;
  size_t cursor_ = 0;
  Node root_;
  std::vector<Open> stack_;
};

}  // namespace

Node parse_json_node(std::string_view text, const std::string& name) {
  if (static_cast<int64_t>(text.size()) > kNodeTextLimit)
    throw JobErrors({{{name, 1, 1}, "", "larger than " + format_bytes(kNodeTextLimit),
                      "a job is a small file: check that this is one"}});
  try {
    parse_json(text, name, ErrorKind::job, {kNodeDepthLimit, kNodeCountLimit});
  } catch (const PlacedError& error) {
    throw JobErrors({{{name, error.at().line, error.at().column}, "", error.problem(), ""}});
  }
  NodeBuilder builder(text, name);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Node node_of(const Json& value, const std::string& name) {
  const Position at{name, 0, 0};
  if (value.is_null()) return {.at = at};
  if (value.is_string()) return scalar_node(value.get<std::string>(), at, Quoting::quoted);
  if (value.is_array()) {
    std::vector<Node> items;
    for (const Json& item : value) items.push_back(node_of(item, name));
    return list_node(std::move(items), at);
  }
  if (value.is_object()) {
    std::vector<Member> members;
    for (const auto& [key, item] : value.items()) members.push_back({key, at, node_of(item, name)});
    return map_node(std::move(members), at);
  }
  return scalar_node(dump_json(value), at, Quoting::plain);
}

}  // namespace forge
