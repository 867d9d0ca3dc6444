#pragma once
// Sends several requests at the same time, and repeats those to a server that is busy or restarts.
#include <functional>
#include <vector>

#include "core/lib/net/http.h"

namespace forge {

// Limit of sending a request. One that fails by its connection, its time limit or a status of 408,
// 429 or 5xx is sent again after half a second and after two more.
constexpr int kMostSends = 3;
bool worth_another(const HttpAnswer& answer);

// Gives `take` each request's number and last answer when it arrives, so that bodies are not
// collected. `take` is called from several threads; at most `concurrency` requests are under way.
// Once `stopped` returns true nothing more is sent, and requests may stay without an answer: the
// caller must ask `stopped` as well. Throws what `take` throws.
using TakeAnswer = std::function<void(size_t request, HttpAnswer answer)>;
void http_requests(std::vector<HttpRequest> requests, int64_t concurrency, const std::function<bool()>& stopped,
                   const TakeAnswer& take);

// Returns a body for a message: quoted and shortened.
std::string shown_body(const std::string& body);

}  // namespace forge
