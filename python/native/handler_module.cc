// The calls of NativeHandler as Python sees them, with the types and texts of their stub.
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "native/handler.h"

// A call of many keys with an answer for each.
#define MARU_BATCH(name) \
  "def batch_" name "(self, keys: collections.abc.Iterable[str | bytes | int]) -> list[bool]"

namespace maru::python {

namespace nb = nanobind;

namespace {

using Type = nb::class_<NativeHandler>;

void DefineConnection(Type& type) {
  type.def(
          "__init__",
          [](NativeHandler* self, std::string server_url, std::string label, std::string name_space,
             uint64_t page_bytes, uint64_t budget_bytes, uint32_t timeout_ms) {
            ClientOptions options;
            options.server_url = std::move(server_url);
            options.label = std::move(label);
            options.name_space = std::move(name_space);
            options.page_bytes = page_bytes;
            options.budget_bytes = budget_bytes;
            options.timeout_ms = timeout_ms;
            new (self) NativeHandler(std::move(options));
          },
          nb::kw_only(), nb::arg("server_url"), nb::arg("label"), nb::arg("namespace"),
          nb::arg("page_bytes"), nb::arg("budget_bytes"), nb::arg("timeout_ms"))
      .def("_open", &NativeHandler::Connect)
      .def("_close", &NativeHandler::Close)
      .def_prop_ro("_connected", &NativeHandler::connected)
      .def("healthcheck", &NativeHandler::Ping, "Whether the server answers. Never raises.")
      .def("_statistics", &NativeHandler::Statistics,
           nb::sig("def _statistics(self) -> dict[str, int]"))
      .def("_inspect", &NativeHandler::Inspect, nb::arg("topic"), nb::arg("cursor"),
           nb::sig("def _inspect(self, topic: int, cursor: int) -> tuple[str, int]"))
      .def("_list_keys", &NativeHandler::ListKeys, nb::arg("prefix"), nb::arg("cursor"),
           nb::sig("def _list_keys(self, prefix: str | bytes, cursor: int) -> "
                   "tuple[list[bytes], int]"));
}

void DefineStores(Type& type) {
  type.def("alloc", &NativeHandler::Alloc, nb::arg("size"),
           "A page to write `size` bytes to. Usually no message to the server.")
      .def("free", &NativeHandler::Free, nb::arg("handle"),
           "Gives a page back. The key of one that was stored is deleted. Twice is a StateError.")
      .def("_free_if_held", &NativeHandler::FreeIfHeld, nb::arg("handle"))
      .def(
          "store", &NativeHandler::Store, nb::arg("key"), nb::arg("handle").none() = nb::none(),
          nb::arg("data").none() = nb::none(),
          nb::sig(
              "def store(self, key: str | bytes | int, handle: AllocHandle | None = None, data: "
              "typing_extensions.Buffer | None = None) -> bool"),
          "True: the key is in the pool now, whoever's page won. Takes the page, unless it raises.")
      .def("batch_store", &NativeHandler::BatchStore, nb::arg("keys"), nb::arg("handles"),
           nb::sig(
               "def batch_store(self, keys: collections.abc.Iterable[str | bytes | int], handles: "
               "collections.abc.Iterable[AllocHandle | typing_extensions.Buffer]) -> "
               "list[bool]"),
           "store() of each, with one answer for each key. Takes all pages, unless it raises.");
}

void DefineLookups(Type& type) {
  type.def("retrieve", &NativeHandler::Retrieve, nb::arg("key"), nb::arg("verify") = false,
           nb::sig("def retrieve(self, key: str | bytes | int, verify: bool = False) -> "
                   "MemoryInfo | None"),
           "Where the bytes of a key lie, leased. None: not there. With `verify` a checksum that "
           "does not match is a CorruptionError.")
      .def(
          "batch_retrieve", &NativeHandler::BatchRetrieve, nb::arg("keys"),
          nb::arg("verify") = false,
          nb::sig(
              "def batch_retrieve(self, keys: collections.abc.Iterable[str | bytes | int], verify: "
              "bool = False) -> list[MemoryInfo | None]"),
          "retrieve() of each.")
      .def("exists", &NativeHandler::Exists, nb::arg("key"),
           nb::sig("def exists(self, key: str | bytes | int) -> bool"), "Whether the key is there.")
      .def("batch_exists", &NativeHandler::BatchExists, nb::arg("keys"),
           nb::sig(MARU_BATCH("exists")), "exists() of each.")
      .def("match_prefix", &NativeHandler::MatchPrefix, nb::arg("keys"),
           nb::sig(
               "def match_prefix(self, keys: collections.abc.Iterable[str | bytes | int]) -> int"),
           "How many of the keys are there, from the first on.");
}

void DefinePins(Type& type) {
  type.def("pin", &NativeHandler::Pin, nb::arg("key"),
           nb::sig("def pin(self, key: str | bytes | int) -> bool"),
           "Keeps the key from being deleted and evicted, as often as it is unpinned. False: not "
           "there.")
      .def("unpin", &NativeHandler::Unpin, nb::arg("key"),
           nb::sig("def unpin(self, key: str | bytes | int) -> bool"),
           "Ends one pin. False: this handler has none on the key.")
      .def("batch_pin", &NativeHandler::BatchPin, nb::arg("keys"), nb::sig(MARU_BATCH("pin")),
           "pin() of each up to the first that is not there, False from there on.")
      .def("batch_unpin", &NativeHandler::BatchUnpin, nb::arg("keys"), nb::sig(MARU_BATCH("unpin")),
           "unpin() of each.")
      .def("delete", &NativeHandler::Delete, nb::arg("key"),
           nb::sig("def delete(self, key: str | bytes | int) -> bool"),
           "Deletes a key, whoever stored it. False: not there, or pinned.")
      .def("batch_delete", &NativeHandler::BatchDelete, nb::arg("keys"),
           nb::sig(MARU_BATCH("delete")), "delete() of each.");
}

void DefineRegions(Type& type) {
  type.def("_regions", &NativeHandler::Regions,
           nb::sig("def _regions(self) -> list[tuple[int, int, int]]"))
      .def("get_buffer_view", &NativeHandler::RegionView, nb::arg("region_id"), nb::arg("offset"),
           nb::arg("size"),
           nb::sig("def get_buffer_view(self, region_id: int, offset: int, size: int) -> "
                   "memoryview | None"),
           "Read-only memory of a region, without a lease. None: there is none such.")
      .def("_list_leases", &NativeHandler::ListLeases)
      .def("_leased_at", &NativeHandler::LeasedAt, nb::arg("region_id"), nb::arg("page_index"),
           nb::arg("length"),
           nb::sig("def _leased_at(self, region_id: int, page_index: int, length: int) -> "
                   "MemoryInfo | None"));
}

}  // namespace

void DefineHandler(nb::module_ module) {
  Type type(module, "NativeHandler", nb::is_weak_referenceable(),
            "The calls of MaruHandler that go to the pool.");
  DefineConnection(type);
  DefineStores(type);
  DefineLookups(type);
  DefinePins(type);
  DefineRegions(type);
}

}  // namespace maru::python
