#pragma once
// Several requests on their way at the same time, with patience for a server that is busy or restarts.
#include <functional>
#include <vector>

#include "core/net/http.h"

namespace forge {

// A request that fails by its connection, its time limit or a status of 408, 429 or 5xx is sent again after half a second
// and after two more.
constexpr int kMostSends = 3;
bool worth_another(const HttpAnswer& answer);

// Gives `take` each request's number and last answer as it comes, so that no batch of bodies is held; from several
// threads at a time, at most `concurrency` under way. Once `stopped` says so nothing more is sent, and requests may
// stay without an answer: the caller asks `stopped` too. Throws what `take` throws.
using TakeAnswer = std::function<void(size_t request, HttpAnswer answer)>;
void http_requests(std::vector<HttpRequest> requests, int64_t concurrency, const std::function<bool()>& stopped,
                   const TakeAnswer& take);

// A body in a message: quoted and shortened.
std::string shown_body(const std::string& body);

}  // namespace forge
