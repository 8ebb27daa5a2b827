#include "catalogue/endpoint_namespace.h"

#include "catalogue/key.h"

namespace maru::catalogue {

Result<std::string> NamespaceBelow(std::string_view endpoint, std::string_view own) {
  MARU_RETURN_IF_ERROR(CheckNamespace(own));
  if (own.starts_with(kEndpointScheme)) {
    return InvalidArgument("the namespace \"" + std::string(own) + "\" begins with " +
                           std::string(kEndpointScheme) +
                           ", as those of endpoints do: choose another, or connect to the server's "
                           "unix socket, where namespaces have their whole names");
  }
  if (endpoint.empty()) return std::string(own);
  const bool is_endpoint = endpoint.starts_with(kEndpointScheme) &&
                           endpoint.size() > kEndpointScheme.size() &&
                           endpoint.find('/', kEndpointScheme.size()) == std::string_view::npos;
  if (!is_endpoint) {
    return DataLoss("\"" + std::string(endpoint) + "\" is no namespace of an endpoint: empty, or " +
                    std::string(kEndpointScheme) + "HOST:PORT");
  }
  std::string whole(endpoint);
  if (!own.empty()) whole.append("/").append(own);
  MARU_RETURN_IF_ERROR(CheckNamespace(whole));
  return whole;
}

}  // namespace maru::catalogue
