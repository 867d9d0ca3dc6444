// Follows the values of a layer's lines, once for each way in which flags leave lines out.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "core/model/families/layer_ops.h"

namespace forge {
namespace {

// A value that a line made, and what later lines do with it.
struct Held {
  int name = 0;
  const LayerStep* maker = nullptr;  // null: h as the layer gets it
  bool stream = false;               // may be fp32 beside the compute type
  size_t readers = 0;
  const LayerStep* alone = nullptr;  // a reader that allows no other
};

using Flags = std::vector<const LayerFlag*>;

Flags flags_of(const LayerSteps& layer) {
  Flags flags;
  for (const LayerStep& step : layer.steps)
    if (step.flag && std::ranges::count(flags, step.flag) == 0) flags.push_back(step.flag);
  return flags;
}

// Follows the lines of one choice of flags.
class Walk {
 public:
  // `says` gets every fault; choices share many of them.
  Walk(const LayerSteps& layer,
       const std::function<void(const LayerStep&, std::string, std::string)>& says)
      : layer_(layer), says_(says), latest_(layer.names.size(), -1) {
    held_.push_back({.stream = true});
    latest_[0] = 0;
  }

  void pass(const LayerStep& step) {
    std::vector<int> read;
    for (size_t i = 0; i < step.in.size(); ++i) read.push_back(read_value(step, i));
    const bool twice = std::set<int>(read.begin(), read.end()).size() < read.size() &&
                       std::ranges::count(read, -1) < 2;
    if (twice) says_(step, std::string(step.op->name) + " reads one value twice", "");
    name_modules(step);
    const bool stream = step.op->sums && read[0] >= 0 && held_[static_cast<size_t>(read[0])].stream;
    for (const int name : step.out) {
      latest_[static_cast<size_t>(name)] = static_cast<int>(held_.size());
      held_.push_back({.name = name, .maker = &step, .stream = stream});
    }
  }

  // Adds the places of values that nothing reads to `unread`, and of the others to `used`.
  void end(std::set<std::pair<const LayerStep*, int>>& unread,
           std::set<std::pair<const LayerStep*, int>>& used) {
    const int last = latest_[0];
    for (size_t i = 1; i < held_.size(); ++i) {
      const Held& value = held_[i];
      const std::pair place{value.maker, value.name};
      (value.readers > 0 || static_cast<int>(i) == last ? used : unread).insert(place);
      if (value.alone && value.readers > 1)
        says_(*value.alone,
              name_of(value.name) + " has another reader, and " + value.alone->op->name +
                  " must be its only one",
              "only norm, linear, experts and the first value of add share what they read");
    }
    if (last == 0)
      says_(layer_.steps.back(), "no line makes the new h",
            "a layer ends with its sum, such as h = add(h, y)");
    else if (!held_[static_cast<size_t>(last)].stream)
      says_(*held_[static_cast<size_t>(last)].maker,
            "h is not a sum with the h that the layer gets", "write h = add(h, y)");
  }

 private:
  const std::string& name_of(int name) const { return layer_.names[static_cast<size_t>(name)]; }

  // Returns the place of the value that a line reads; -1 for one that is not made yet.
  int read_value(const LayerStep& step, size_t i) {
    const int name = step.in[i], at = latest_[static_cast<size_t>(name)];
    if (at < 0) {
      unmade(step, name);
      return -1;
    }
    Held& value = held_[static_cast<size_t>(at)];
    ++value.readers;
    const StepReads reads = step.op->reads[i];
    if (reads == StepReads::alone) value.alone = &step;
    if (value.stream && reads != StepReads::stream)
      says_(step,
            name_of(name) + " is the stream, which " + step.op->name +
                (i == 1 && step.op->sums ? " takes first" : " does not read"),
            "norm, linear and the first value of add read it");
    return at;
  }

  // A cycle of lines comes to this, too.
  void unmade(const LayerStep& step, int name) {
    for (const LayerStep& other : layer_.steps)
      if (std::ranges::count(other.out, name) > 0)
        return says_(step, name_of(name) + " is read before it is made",
                     other.at.line < step.at.line
                         ? "line " + std::to_string(other.at.line) +
                               " makes it, but not in every layer that has this line"
                         : "line " + std::to_string(other.at.line) + " makes it");
    says_(step, name_of(name) + " is read, and no line makes it",
          "h is the value that a layer begins with");
  }

  void name_modules(const LayerStep& step) {
    const size_t named = step.op->rest == Rest::experts ? 2 : step.modules.size();
    for (size_t i = 0; i < named; ++i)
      if (const std::string& name = step.modules[i].name;
          !name.empty() && !modules_.insert(name).second)
        says_(step, "the module " + name + " is named twice",
              "each module is computed once in a layer");
  }

  const LayerSteps& layer_;
  const std::function<void(const LayerStep&, std::string, std::string)>& says_;
  std::vector<int> latest_;  // of each name: its value in held_, or -1
  std::vector<Held> held_;
  std::set<std::string> modules_;
};

}  // namespace

void check_flow(const LayerSteps& layer, Diagnostics& faults) {
  if (layer.steps.empty()) return;
  const Flags flags = flags_of(layer);
  if (flags.size() > kMostStepFlags)
    return faults.add(layer.steps[0].at, kLayerKey,
                      "lines depend on " + std::to_string(flags.size()) + " flags, at most " +
                          std::to_string(kMostStepFlags) + " are followed");
  std::map<std::pair<const LayerStep*, std::string>, std::string> said;
  const std::function says = [&](const LayerStep& step, std::string what, std::string hint) {
    said.emplace(std::pair{&step, std::move(what)}, std::move(hint));
  };
  std::set<std::pair<const LayerStep*, int>> unread, used;
  for (size_t choice = 0; choice < size_t{1} << flags.size(); ++choice) {
    Walk walk(layer, says);
    for (const LayerStep& step : layer.steps) {
      const auto flag = std::ranges::find(flags, step.flag) - flags.begin();
      if (!step.flag || ((choice >> flag) & 1) == (step.wanted ? 1u : 0u)) walk.pass(step);
    }
    walk.end(unread, used);
  }
  for (const auto& place : unread)
    if (used.count(place) == 0)
      says(*place.first, layer.names[static_cast<size_t>(place.second)] + " is never read", "");
  for (const auto& [place, hint] : said) faults.add(place.first->at, kLayerKey, place.second, hint);
}

}  // namespace forge
