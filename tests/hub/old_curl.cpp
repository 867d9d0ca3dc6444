// A library for LD_PRELOAD that makes libcurl refuse the options that came after 7.76, the release
// of RHEL 9. Ubuntu 22.04 has 7.81.
#include <dlfcn.h>

#include <cstdarg>

extern "C" int curl_easy_setopt(void* easy, int option, ...) {
  constexpr int kKinds = 10000, kLastOf776 = 308, kUnknownOption = 48;  // of <curl/curl.h>
  if (option % kKinds > kLastOf776) return kUnknownOption;
  // Every kind of value is passed in one register on x86-64.
  va_list values;
  va_start(values, option);
  void* value = va_arg(values, void*);
  va_end(values);
  // The component's libcurl is not in the global scope, where RTLD_NEXT looks.
  using Set = int(void*, int, ...);
  static auto* real = reinterpret_cast<Set*>(
      ::dlsym(::dlopen("libcurl.so.4", RTLD_LAZY | RTLD_NOLOAD), "curl_easy_setopt"));
  return real(easy, option, value);
}
