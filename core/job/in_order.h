#pragma once
// A map that keeps its order: of several patterns that match, the first decides.
#include <string>
#include <utility>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

template <class T>
struct InOrder : std::vector<std::pair<std::string, T>> {
  using mapped_type = T;
  // Returns the value of a name. A new name is added at the end.
  T& operator[](const std::string& name) {
    for (auto& [known, value] : *this)
      if (known == name) return value;
    return this->emplace_back(name, T()).second;
  }
};

template <class T>
void to_json(Json& json, const InOrder<T>& values) {
  json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
}

template <class T>
void from_json(const Json& json, InOrder<T>& values) {
  values.clear();
  for (const auto& [name, value] : json.items()) values.emplace_back(name, value.template get<T>());
}

}  // namespace forge
