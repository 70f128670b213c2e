// The extension module hookline_torch._C.
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/resolve.h"
#include "hooks/build_stamp.h"
#include "hooks/catalog/catalog.h"
#include "hooks/registry/plugin.h"
#include "hooks/registry/registry.h"
#include "parallel/rank/rank_status.h"
#include "parallel/world/cuda_library.h"
#include "python/bindings/chosen_hooks.h"
#include "python/bindings/hook_handle.h"
#include "python/bindings/rank_reports.h"

namespace hookline {
namespace {

namespace py = pybind11;

/// Calls `make_group`, a function of Python's, from C++ code that does not hold Python's lock.
GroupFactory group_factory(const py::function& make_group) {
  // Copies are made and destroyed without Python's lock; the last one takes it.
  const std::shared_ptr<py::function> kept(new py::function(make_group), [](py::function* function) {
    const py::gil_scoped_acquire lock;
    delete function;
  });
  return [kept](const std::string& name) {
    const py::gil_scoped_acquire lock;
    return (*kept)(name).cast<ProcessGroupPtr>();
  };
}

std::shared_ptr<HookHandle> make_handle(const std::string& hook, const std::string& wrapper,
                                        const OptionMap& options, std::vector<at::Tensor> parameters,
                                        int rank, int world_size, const py::function& make_group) {
  const GroupFactory groups = group_factory(make_group);
  const py::gil_scoped_release unlocked;
  // The hook's threads may need Python's lock to end.
  return {new HookHandle(hook, wrapper, options, std::move(parameters), rank, world_size, groups),
          [](HookHandle* handle) {
            if (PyGILState_Check()) {
              const py::gil_scoped_release unlocked_now;
              delete handle;
            } else {
              delete handle;
            }
          }};
}

py::dict to_python(const SavedHook& saved) {
  py::dict result;
  result["hook"] = saved.hook;
  result["world_size"] = saved.world_size;
  result["shapes"] = saved.shapes;
  result["buckets"] = saved.buckets;
  result["shared"] = saved.state.shared;
  result["own"] = saved.state.own;
  result["numbers"] = saved.state.numbers;
  return result;
}

SavedHook from_python(const py::dict& saved) {
  try {
    return {saved["hook"].cast<std::string>(),
            saved["world_size"].cast<int>(),
            saved["shapes"].cast<std::vector<std::vector<std::int64_t>>>(),
            saved["buckets"].cast<BucketPositions>(),
            {saved["shared"].cast<std::map<std::string, at::Tensor>>(),
             saved["own"].cast<std::map<std::string, at::Tensor>>(),
             saved["numbers"].cast<std::map<std::string, std::int64_t>>()}};
  } catch (const std::exception& error) {
    throw HookError(std::string("this is not the state of a hook, which Hook.state_dict() returns: ") +
                    error.what());
  }
}

std::vector<py::dict> hook_rows() {
  std::vector<py::dict> rows;
  for (const HookRow& row : Registry::instance().catalog().hooks()) {
    py::dict each, options;
    for (const OptionRow& option : row.options) options[py::str(option.name)] = option.default_value;
    each["name"] = row.name;
    each["summary"] = row.summary;
    each["options"] = options;
    each["can_be_wrapped"] = row.wrappable && !row.half_precision;
    rows.push_back(each);
  }
  return rows;
}

}  // namespace
}  // namespace hookline

PYBIND11_MODULE(_C, module) {
  using namespace hookline;
  py::module_::import("torch._C._distributed_c10d");  // whose types this module's functions take
  const auto error = py::register_exception<Error>(module, "Error", PyExc_RuntimeError);
  py::register_exception<ConfigError>(module, "ConfigError", error);
  module.attr("build") = HOOKLINE_BUILD_STAMP;
  module.def("hooks", &hook_rows);
  module.def("chosen_hooks", [](const std::optional<std::string>& file) {
    const ChosenHooks settings =
        chosen_hooks(file ? std::optional<std::filesystem::path>(*file) : std::nullopt);
    py::dict result;
    result["comm_hook"] = settings.ddp.comm_hook;
    result["comm_wrapper"] = settings.ddp.comm_wrapper;
    result["comm_state_option"] = settings.ddp.comm_state_option;
    result["fsdp_comm_hook"] = settings.fsdp_comm_hook;
    result["plugins"] = settings.ddp.plugins;
    result["given"] = settings.given;
    result["warnings"] = settings.warnings;
    return result;
  });
  module.def("load_plugin", [](const std::string& file) { load_plugin(file, Registry::instance()); });
  module.def("hook_name", [](const std::string& name) {
    const HookRow* const row = Registry::instance().catalog().find_hook(name);
    return row ? row->name : name;
  });
  module.def("cuda_problem", [] {
    const py::gil_scoped_release unlocked;
    return cuda_library().problem;
  });
  module.def("write_error_file", &write_error_file);
  py::class_<RankReports>(module, "RankReports")
      .def(py::init<>())
      .def("step", &RankReports::step)
      .def("log", &RankReports::log)
      .def("end", [](RankReports& reports, bool has_failed) {
        const py::gil_scoped_release unlocked;
        reports.end(has_failed ? RunEnd::failed : RunEnd::finished);
      });
  py::class_<HookHandle, std::shared_ptr<HookHandle>>(module, "Handle")
      .def(py::init(&make_handle))
      .def("run",
           [](const std::shared_ptr<HookHandle>& handle, c10d::GradBucket& bucket) {
             const py::gil_scoped_release unlocked;
             // Python's Reducer wants an object of Python's as the value.
             const FuturePtr result = handle->run(bucket)->then(
                 [](c10::ivalue::Future& done) -> c10::IValue {
                   const c10::IValue value = done.value();
                   const py::gil_scoped_acquire lock;
                   return torch::jit::toIValue(torch::jit::toPyObject(value), c10::PyObjectType::get());
                 },
                 c10::PyObjectType::get());
             return std::make_shared<torch::jit::PythonFutureWrapper>(result);
           })
      .def("register_natively",
           [](const std::shared_ptr<HookHandle>& handle, c10d::Reducer& reducer) {
             reducer.register_comm_hook(std::make_unique<HandleAsHook>(handle));
           })
      .def("describe", &HookHandle::describe)
      .def("bytes_sent", &HookHandle::bytes_sent)
      .def("take_compression_error", &HookHandle::take_compression_error,
           py::call_guard<py::gil_scoped_release>())
      .def("bytes_by_stage",
           [](const HookHandle& handle) {
             py::dict stages;
             for (const StageBytes& each : handle.bytes_by_stage()) stages[py::str(each.stage)] = each.bytes;
             return stages;
           })
      .def("save",
           [](const HookHandle& handle) {
             SavedHook saved;
             {
               const py::gil_scoped_release unlocked;
               saved = handle.save();
             }
             return to_python(saved);
           })
      .def("load", [](HookHandle& handle, const py::dict& dict, c10d::Reducer& reducer) {
        const SavedHook saved = from_python(dict);
        const py::gil_scoped_release unlocked;
        handle.load(saved, reducer);
      });
}
