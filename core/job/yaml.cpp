// Reads YAML through yaml-cpp's events and refuses input that yaml-cpp would accept silently.
// yaml-cpp 0.7 accepts duplicate keys (the first wins), an unclosed quote (it swallows the next
// keys), cyclic aliases, invalid UTF-8 (replaced) and a second document (ignored); a byte 4 ends
// the file. Each has a test in tests/config/yaml_test.cpp.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "core/job/diagnostics.h"
#include "core/job/node.h"
#include "core/lib/base/placed_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

[[noreturn]] void fail(const Position& at, const std::string& message, const std::string& hint = "") {
  throw JobErrors({{at, "", message, hint}});
}

// Line index that turns yaml-cpp's marks (zero-based, in bytes) into positions and offsets.
class Source {
 public:
  Source(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
    starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }
  std::string_view text() const { return text_; }
  size_t offset(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.line >= static_cast<int>(starts_.size())) return text_.size();
    return std::min(text_.size(), starts_[static_cast<size_t>(mark.line)] + static_cast<size_t>(mark.column));
  }
  Position at(size_t offset) const {
    auto line =
        static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin());
    // Positions come in text order. Counting on from the last one keeps long lines linear.
    if (last_.line != static_cast<int64_t>(line) || last_offset_ > offset) {
      last_ = {name_, static_cast<int64_t>(line)};
      last_offset_ = starts_[line - 1];
    }
    while (last_offset_ < offset) last_.pass(text_[last_offset_++]);
    return {name_, last_.line, last_.column};
  }
  Position at(const YAML::Mark& mark) const { return at(offset(mark)); }

 private:
  std::string_view text_;
  std::string name_;
  std::vector<size_t> starts_;
  mutable PlaceInFile last_{.line = 0};
  mutable size_t last_offset_ = 0;
};

// Refuses bytes that yaml-cpp would replace, skip or misread.
void check_bytes(const Source& source) {
  std::string_view text = source.text();
  size_t bad = 0;
  if (!valid_utf8(text, &bad)) fail(source.at(bad), "not valid UTF-8", "save the file as UTF-8");
  bool indent = true;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if ((static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\r' && c != '\t') || c == 127)
      fail(source.at(i), "a control character (byte " + std::to_string(static_cast<int>(c)) + ")");
    if (c == '\t' && indent) fail(source.at(i), "a tab in the indentation", "indent with spaces");
    if (c != ' ' && c != '\t') indent = c == '\n';
  }
}

// Refuses a quote that does not close on its own line. It would swallow the keys below it, up to
// the next quote.
void check_quote(const Source& source, size_t begin) {
  std::string_view text = source.text();
  char quote = text[begin];
  for (size_t i = begin + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != '\'') return;
      ++i;
    }
  }
  fail(source.at(begin), "the quote is not closed on its line", "close it, or write long text as a | block");
}

class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const Source& source) : source_(source) {}
  Node take() {
    if (bad_key_.line != 0) fail(bad_key_, "a key must be a plain name", "write \"key: value\"");
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      fail(source_.at(mark), "a second document", "a job is one document: remove the ---");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(mark, "", anchor);
    add(node(NodeKind::null, mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    begin(mark, tag, anchor);
    Node scalar = node(NodeKind::scalar, mark);
    scalar.scalar = value;
    if (tag == "!") scalar.quoting = Quoting::quoted;
    size_t offset = source_.offset(mark);
    if (offset < source_.text().size() && (source_.text()[offset] == '"' || source_.text()[offset] == '\''))
      check_quote(source_, offset);
    bool blank = value.empty() || value == "~" || value == "null" || value == "Null" || value == "NULL";
    if (scalar.quoting == Quoting::plain && blank) scalar.kind = NodeKind::null;
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(NodeKind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(NodeKind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  // An open container. Nodes move into their parent when they close, so no pointer dangles.
  struct Open {
    Node node;
    bool has_key = false;  // in a map: the key has been read, its value comes next
    std::string key;
    Position key_at;
  };

  Node node(NodeKind kind, const YAML::Mark& mark) const {
    return {.kind = kind, .at = source_.at(mark)};
  }
  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    fail(source_.at(mark), "anchors (&name) and aliases (*name) are not supported",
         "write the value out, quote a text that starts with * or &, or share keys with extends");
  }
  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse_anchor(mark);
    size_t offset = source_.offset(mark);
    bool marked = offset < source_.text().size() && source_.text()[offset] == '!';
    if (marked || !(tag.empty() || tag == "?" || tag == "!"))
      fail(source_.at(mark), "tags (!name) are not supported", "quote a text that starts with !");
    if (++count_ > kNodeCountLimit)
      fail(source_.at(mark), "more than " + format_count(kNodeCountLimit) + " values");
  }
  void open(NodeKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    begin(mark, tag, anchor);
    if (static_cast<int>(stack_.size()) >= kNodeDepthLimit)
      fail(source_.at(mark), "nested deeper than " + std::to_string(kNodeDepthLimit) + " levels");
    stack_.push_back({node(kind, mark)});
  }
  void close() {
    Node done = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(done));
  }
  void add(Node value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(value));
    } else if (!parent.has_key) {
      take_key(parent, std::move(value));
    } else {
      parent.node.members.push_back({std::move(parent.key), std::move(parent.key_at), std::move(value)});
      parent.has_key = false;
    }
  }
  void take_key(Open& map, Node key) {
    if (!key.is_scalar()) {
      // No fault is thrown yet: yaml-cpp reads an unclosed [ as a key, and then misses its ].
      if (bad_key_.line == 0) bad_key_ = key.at;
      key.scalar = "?" + std::to_string(map.node.members.size());
    }
    if (key.scalar == "<<") fail(key.at, "merge keys (<<) are not supported", "share keys with extends");
    if (map.node.members.size() >= kMapKeyLimit)
      fail(key.at, "more than " + format_count(kMapKeyLimit) + " keys in one map");
    for (const Member& member : map.node.members)
      if (member.key == key.scalar)
        fail(key.at,
             "the key \"" + key.scalar + "\" appears twice, first in line " +
                 std::to_string(member.key_at.line),
             "remove one of them");
    map.key = std::move(key.scalar);
    map.key_at = std::move(key.at);
    map.has_key = true;
  }

  const Source& source_;
  Node root_;
  std::vector<Open> stack_;
  Position bad_key_;
  int64_t count_ = 0;
  int documents_ = 0;
};

}  // namespace

Node parse_yaml(std::string_view text, const std::string& name) {
  if (static_cast<int64_t>(text.size()) > kNodeTextLimit)
    fail({name, 1, 1}, "larger than " + format_bytes(kNodeTextLimit), "a job is a small file: check that this is one");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Source source(text, name);
  check_bytes(source);
  std::istringstream stream{std::string(text)};
  Builder builder(source);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    bool anchor =
        error.msg.find("anchor") != std::string::npos || error.msg.find("alias") != std::string::npos;
    fail(source.at(error.mark), "not valid YAML: " + error.msg,
         anchor ? "quote a text that starts with * or &" : "");
  }
  Node root = builder.take();
  if (root.at.file.empty()) root.at = {name, 1, 1};
  return root;
}

}  // namespace forge
