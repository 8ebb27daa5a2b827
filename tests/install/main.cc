// Stores a block in the server whose socket is named, and reads it where it lies.
#include <maru/client.h>

#include <cstdio>
#include <string>

maru::Status Run(const std::string& socket, const std::string& text) {
  MARU_ASSIGN_OR_RETURN(auto client, maru::Client::Connect({.server_url = socket}));
  MARU_RETURN_IF_ERROR(client->Put("greeting", std::as_bytes(std::span(text))).status());
  MARU_ASSIGN_OR_RETURN(const maru::View view, client->Retrieve("greeting"));
  std::printf("%.*s\n", static_cast<int>(view.bytes().size()),
              reinterpret_cast<const char*>(view.bytes().data()));
  return maru::OkStatus();
}

int main(int, char** argv) {
  const maru::Status status = Run(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
