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

// Answers in the order of the requests, at most `concurrency` under way. Once `stopped` says so nothing more is sent, and
// answers may be empty: the caller asks `stopped` too.
std::vector<HttpAnswer> http_requests(std::vector<HttpRequest> requests, int64_t concurrency, const std::function<bool()>& stopped);

// A body in a message: quoted and shortened.
std::string shown_body(const std::string& body);

}  // namespace forge
