#pragma once
// One of several structs, chosen by a type that the job file names. The structs stand in the order
// of the type's enum. Keys that several types read are members of a base that their structs share:
// a part.
//
//   ObjectiveConfig objective = DpoConfig{};
//   objective.type();                                    // ObjectiveType::dpo
//   objective.as<Referenced>().reference                 // a key of dpo and kto
//   if (auto* policy = objective.find<PolicyConfig>()) …  // nullptr: the type has no such keys
#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace forge {

template <class Type, class... Structs>
class OneOf {
 public:
  OneOf() = default;
  template <class Struct>
    requires(std::same_as<Struct, Structs> || ...)
  OneOf(Struct value) : value_(std::move(value)) {}

  Type type() const { return static_cast<Type>(value_.index()); }

  // Changes the type. All keys then have their defaults, unless it is the same type.
  void become(Type type) {
    if (type == this->type()) return;
    size_t index = 0;
    ((index++ == static_cast<size_t>(type) ? void(value_.template emplace<Structs>()) : void()), ...);
  }

  // Returns the keys that the type shares with others, or its own struct; nullptr if it has none.
  template <class Part>
  Part* find() {
    return std::visit(
        [](auto& value) -> Part* {
          if constexpr (std::is_base_of_v<Part, std::remove_reference_t<decltype(value)>>) return &value;
          return nullptr;
        },
        value_);
  }
  template <class Part>
  const Part* find() const {
    return const_cast<OneOf*>(this)->template find<Part>();
  }

  // Like find(), with the defaults of keys that the type does not have.
  template <class Part>
  const Part& as() const {
    static const Part defaults;
    const Part* part = find<Part>();
    return part ? *part : defaults;
  }

  // Returns the types that have the part.
  template <class Part>
  static std::vector<Type> types_with() {
    std::vector<Type> types;
    size_t index = 0;
    ((std::is_base_of_v<Part, Structs> ? types.push_back(static_cast<Type>(index++)) : void(index++)), ...);
    return types;
  }

  // Calls `work` with the struct of the type.
  template <class Work>
  decltype(auto) visit(Work work) const {
    return std::visit(std::move(work), value_);
  }

 private:
  std::variant<Structs...> value_;
};

}  // namespace forge
