// The Python face of InferenceModel. Values cross as what Python has by itself, so that
// this file needs no numpy: a tensor is (data type's number in ONNX, shape, bytes), of strings
// (8, shape, list of bytes); a sequence is a list; an optional without a value is None.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backend/inference/model.h"
#include "graph/base/errors.h"
#include "graph/base/string_ref.h"
#include "graph/base/tensor.h"

namespace py = pybind11;

namespace onward {
namespace {

// An error as an exception with the command's exit code.
[[noreturn]] void Raise(const absl::Status& status) {
  const py::object error = py::module_::import("onward").attr("OnwardError");
  const py::object made =
      error(std::string(status.message()), static_cast<int>(ExitCodeOf(status)));
  PyErr_SetObject(error.ptr(), made.ptr());
  throw py::error_already_set();
}

Tensor TensorOf(const py::tuple& value) {
  if (value.size() != 3) throw py::value_error("a tensor is (type, shape, data)");
  const auto dtype = static_cast<DataType>(value[0].cast<int>());
  const auto shape = value[1].cast<std::vector<int64_t>>();
  absl::StatusOr<Tensor> tensor = Tensor::Allocate(dtype, Dims(shape.begin(), shape.end()));
  if (!tensor.ok()) Raise(tensor.status());
  if (dtype == DataType::kString) {
    const auto texts = value[2].cast<std::vector<std::string>>();
    if (static_cast<int64_t>(texts.size()) != tensor->elements()) {
      throw py::value_error("as many strings as the shape says are expected");
    }
    const absl::Span<StringRef> to = tensor->mutable_values<StringRef>();
    for (size_t i = 0; i < texts.size(); ++i) to[i] = StringRef::Of(texts[i]);
    return *std::move(tensor);
  }
  const std::string data = value[2].cast<std::string>();
  if (static_cast<int64_t>(data.size()) != tensor->bytes()) {
    throw py::value_error(absl::StrCat(data.size(), " bytes are given for ",
                                       ToString(tensor->type()), ", expected ", tensor->bytes()));
  }
  if (!data.empty()) std::memcpy(tensor->data(), data.data(), data.size());
  return *std::move(tensor);
}

ModelValue ValueOf(const py::handle& object) {
  ModelValue value;
  if (object.is_none()) {
    value.kind = ModelValue::Kind::kNothing;
  } else if (py::isinstance<py::list>(object)) {
    value.kind = ModelValue::Kind::kSequence;
    for (const py::handle element : py::reinterpret_borrow<py::list>(object)) {
      value.elements.push_back(ValueOf(element));
    }
  } else {
    value.tensor =
        std::make_shared<const Tensor>(TensorOf(py::reinterpret_borrow<py::tuple>(object)));
  }
  return value;
}

py::object ObjectOf(const ModelValue& value) {
  switch (value.kind) {
    case ModelValue::Kind::kNothing:
      return py::none();
    case ModelValue::Kind::kSequence: {
      py::list list;
      for (const ModelValue& element : value.elements) list.append(ObjectOf(element));
      return std::move(list);
    }
    case ModelValue::Kind::kTensor:
      break;
  }
  const Tensor& tensor = *value.tensor;
  py::list shape;
  for (int64_t d : tensor.dims()) shape.append(d);
  if (tensor.dtype() == DataType::kString) {
    py::list texts;
    for (const StringRef& s : tensor.values<StringRef>()) texts.append(py::bytes(s.text()));
    return py::make_tuple(static_cast<int>(tensor.dtype()), py::tuple(shape), texts);
  }
  return py::make_tuple(static_cast<int>(tensor.dtype()), py::tuple(shape),
                        py::bytes(static_cast<const char*>(tensor.data()), tensor.bytes()));
}

class Model {
 public:
  Model(const std::string& bytes, const std::string& name, int threads) {
    auto model = InferenceModel::FromBytes(bytes, name, threads);
    if (!model.ok()) Raise(model.status());
    model_ = *std::move(model);
  }

  py::list Run(const py::list& inputs) {
    std::vector<ModelValue> values;
    for (const py::handle input : inputs) values.push_back(ValueOf(input));
    absl::StatusOr<std::vector<ModelValue>> outputs = absl::InternalError("");
    {
      py::gil_scoped_release released;
      outputs = model_->Run(values);
    }
    if (!outputs.ok()) Raise(outputs.status());
    py::list list;
    for (const ModelValue& output : *outputs) list.append(ObjectOf(output));
    return list;
  }

  std::vector<std::string> InputNames() const {
    std::vector<std::string> names;
    for (const ModelInput& input : model_->onnx().inputs()) names.push_back(input.name);
    return names;
  }
  std::vector<std::string> OutputNames() const {
    std::vector<std::string> names;
    for (const ModelOutput& output : model_->onnx().outputs()) names.push_back(output.name);
    return names;
  }

 private:
  std::unique_ptr<InferenceModel> model_;
};

}  // namespace
}  // namespace onward

PYBIND11_MODULE(_onward, module) {
  using onward::Model;
  py::class_<Model>(module, "Model")
      .def(py::init<py::bytes, std::string, int>(), py::arg("model"), py::arg("name"),
           py::arg("threads"))
      .def("run", &Model::Run, py::arg("inputs"))
      .def_property_readonly("input_names", &Model::InputNames)
      .def_property_readonly("output_names", &Model::OutputNames);
}
