// What handlers tell and ask the metadata endpoint of upstream's protocol: how long their calls
// took, and what all of its clients have told.
#pragma once

#include <nanobind/nanobind.h>

namespace maru::python {

// _report_stats and _endpoint_stats.
void DefineEndpoint(nanobind::module_ module);

}  // namespace maru::python
