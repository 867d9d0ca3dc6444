#pragma once
// HTTP requests through libcurl. Only the commands that need it load it.
//
//   HttpAnswer answer = http_request({.url = "https://huggingface.co/api/models/org/name"});
//   if (answer.status == 200) parse(answer.body);
//
// libcurl is in a component of its own, libforge-http.so: forge starts without it, and no other
// command can open a connection. Redirects are followed. A token is sent to the first host only.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

struct HttpRequest {
  std::string url;
  std::string method = "GET";
  std::vector<std::string> headers{};  // "Name: value"
  std::string token{};                 // sent as Authorization: Bearer; empty: none
  std::string body{};
  int64_t from_byte = 0;               // asks for the bytes from here on, by Range
  int64_t most_bytes = int64_t{64} << 20;  // limit of a body that is kept in memory
  bool follow = true;
  double connect_seconds = 20;
  double idle_seconds = 60;            // longest time below least_bytes_per_second
  int64_t least_bytes_per_second = 1;
  double total_seconds = 0;            // 0: no limit
  std::function<bool()> stopped{};     // called about once a second; true: the request is given up
};

struct HttpAnswer {
  int64_t status = 0;  // 0: no answer came
  std::map<std::string, std::string> headers;  // headers of the last answer; names in lower case
  std::string body;
  // The reason, in libcurl's words, why the connection ended before the answer did; empty if it did
  // not.
  std::string failure;
};

// Receives a body instead of HttpAnswer::body. `begin` is called once, before the first byte of a
// 2xx answer.
struct HttpSink {
  std::function<void(const HttpAnswer& head)> begin;
  std::function<void(std::string_view bytes)> write;
};

// Throws Error(environment) if the component cannot be loaded.
void require_http();

// Throws Error(environment) if the component is missing. A network that fails is returned as an
// answer.
HttpAnswer http_request(const HttpRequest& request, const HttpSink& sink = {});

enum class Digest {
  sha256,
  git_blob,  // SHA-1 of "blob SIZE\0" and the content, as git names a file
};

// Returns the digest of a file's content, in lower-case hexadecimal digits. Throws
// Error(environment) if it cannot be read.
std::string file_digest(const std::string& path, Digest digest);

}  // namespace forge
