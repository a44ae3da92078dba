#include "kernels/onednn/engine.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/base/status_macros.h"
#include "kernels/threads/team.h"
#include "oneapi/dnnl/dnnl_debug.h"

namespace onward::onednn {
namespace {

using Desc = dnnl::memory::desc;

// oneDNN's tags by their letters, "aBcd16b".
const absl::flat_hash_map<std::string, dnnl_format_tag_t>& Tags() {
  static const auto* const tags = [] {
    auto* map = new absl::flat_hash_map<std::string, dnnl_format_tag_t>;
    for (int t = dnnl_format_tag_any + 1; t < dnnl_format_tag_last; ++t) {
      const auto tag = static_cast<dnnl_format_tag_t>(t);
      map->emplace(dnnl_fmt_tag2str(tag), tag);
    }
    return map;
  }();
  return *tags;
}

std::vector<int> OrderOf(const Layout& layout, size_t rank) {
  std::vector<int> order(layout.order.begin(), layout.order.end());
  if (order.empty()) {
    order.resize(rank);
    std::iota(order.begin(), order.end(), 0);
  }
  return order;
}

std::string TagOf(const std::vector<int>& order, absl::Span<const Layout::Block> blocks) {
  std::string tag;
  for (int axis : order) {
    const bool blocked = std::any_of(blocks.begin(), blocks.end(),
                                     [&](const Layout::Block& b) { return b.axis == axis; });
    tag += static_cast<char>((blocked ? 'A' : 'a') + axis);
  }
  for (const Layout::Block& b : blocks) {
    absl::StrAppend(&tag, b.size, std::string(1, static_cast<char>('a' + b.axis)));
  }
  return tag;
}

// `layout` of our tensor in the axes of the view: what is exchanged is exchanged,
// and of an axis cut in two the blocks lie in the inner part.
absl::StatusOr<Layout> ToView(const Layout& layout, const View& view, size_t rank) {
  Layout out;
  const auto rename = [&](int axis) {
    if (view.kind == View::Kind::kSwapped) return 1 - axis;
    return view.kind == View::Kind::kGroups ? axis + 1 : axis;
  };
  for (int axis : OrderOf(layout, rank)) {
    if (view.kind == View::Kind::kGroups && axis == 0) out.order.push_back(0);
    out.order.push_back(rename(axis));
  }
  for (const Layout::Block& b : layout.blocks) {
    int axis = rename(b.axis);
    if (view.kind == View::Kind::kGroups && b.axis == 0) {
      // One filter to a group: the groups are blocked. Else the filters of each.
      if (view.dims[1] == 1) {
        axis = 0;
      } else if (view.dims[1] % b.size != 0) {
        return absl::UnimplementedError("a block of filters reaches over groups");
      }
    }
    out.blocks.push_back({axis, b.size});
  }
  return out;
}

// The other way. Nothing where our axes cannot say it.
std::optional<Layout> FromView(const Layout& seen, const View& view) {
  Layout out;
  if (view.kind == View::Kind::kGroups) {
    int64_t block = 1;
    for (const Layout::Block& b : seen.blocks) {
      if (b.axis == 1) block *= b.size;
      if (b.axis == 0 && view.dims[1] != 1) return std::nullopt;
    }
    if (view.dims[1] != 1 && view.dims[1] % block != 0) return std::nullopt;
    if (view.dims[1] == 1 && block != 1) return std::nullopt;
    // Groups and filters must lie next to one another (a single filter may lie anywhere).
    for (size_t i = 0; i < seen.order.size(); ++i) {
      if (seen.order[i] == 1) continue;
      if (seen.order[i] != 0) {
        out.order.push_back(seen.order[i] - 1);
        continue;
      }
      const bool next = i + 1 < seen.order.size() && seen.order[i + 1] == 1;
      if (!next && view.dims[1] != 1) return std::nullopt;
      out.order.push_back(0);
    }
    for (const Layout::Block& b : seen.blocks) {
      out.blocks.push_back({b.axis == 0 ? 0 : b.axis - 1, b.size});
    }
    return out;
  }
  const auto rename = [&](int axis) { return view.kind == View::Kind::kSwapped ? 1 - axis : axis; };
  for (int axis : seen.order) out.order.push_back(rename(axis));
  for (const Layout::Block& b : seen.blocks) out.blocks.push_back({rename(b.axis), b.size});
  return out;
}

const TensorType* TypeOf(const KernelCall& call, const Operand& operand) {
  return operand.output ? call.outputs[operand.index] : call.inputs[operand.index];
}

bool IsOpen(const KernelCall& call, const Operand& operand) {
  if (operand.view.kind == View::Kind::kShaped) return false;
  return ((operand.output ? call.open_outputs : call.open_inputs) >> operand.index & 1) != 0;
}

// A form with its primitive's descriptor: what was asked, and the layouts that it
// came to.
struct Chosen {
  dnnl::primitive_desc_base descriptor;
  std::vector<Desc> descs;
  std::vector<Layout> layouts;
};

absl::Status MakeDescriptor(const KernelCall& call, const Form& form, Chosen* chosen) {
  RETURN_IF_ERROR(Guarded(call.threads, [&] {
    dnnl::primitive_attr attributes = form.attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    chosen->descriptor = form.create(chosen->descs, attributes);
  }));
  if (form.refuse_reference && absl::StrContains(chosen->descriptor.impl_info_str(), "ref")) {
    return absl::UnimplementedError("oneDNN has no optimised code for this call");
  }
  return absl::OkStatus();
}

// Once more with every layout that was left to oneDNN given by its name, as `prepare` will:
// the code and its scratch may differ. NotFound where a layout has no name, which is then
// no longer left to it; Unimplemented where there is no code for the layouts so named.
absl::Status GiveNames(const KernelCall& call, const Form& form, absl::Span<const Desc> wanted,
                       bool exact, std::vector<bool>* any, Chosen* chosen) {
  bool all = true;
  for (size_t i = 0; i < form.operands.size(); ++i) {
    if (!(*any)[i]) continue;
    const Operand& operand = form.operands[i];
    const Dims& dims = TypeOf(call, operand)->dims;
    const std::optional<Layout> layout = LayoutOf(wanted[i], dims, operand.view, exact);
    if (!layout) {
      (*any)[i] = all = false;
      continue;
    }
    ASSIGN_OR_RETURN(chosen->descs[i],
                     DescriptorOf({DataType::kFloat32, dims, *layout}, operand.view));
    chosen->layouts[i] = *layout;
  }
  if (!all) return absl::NotFoundError("a layout without a name");
  return MakeDescriptor(call, form, chosen);
}

// Tries with the operands of which `any` is true left to oneDNN.
absl::Status Try(const KernelCall& call, const Form& form, std::vector<bool> any, Chosen* chosen) {
  for (size_t round = 0; round <= form.operands.size(); ++round) {
    chosen->descs.clear();
    chosen->layouts.clear();
    for (size_t i = 0; i < form.operands.size(); ++i) {
      const Operand& operand = form.operands[i];
      if (operand.like >= 0 && IsOpen(call, operand)) {
        any[i] = any[operand.like];
        chosen->descs.push_back(chosen->descs[operand.like]);
        chosen->layouts.push_back(chosen->layouts[operand.like]);
        continue;
      }
      TensorType type = *TypeOf(call, operand);
      // An open tensor that is not left to oneDNN keeps its layout where it can.
      absl::StatusOr<Desc> desc = DescriptorOf(type, operand.view);
      if (!desc.ok() && IsOpen(call, operand)) {
        type.layout = Layout{};
        desc = DescriptorOf(type, operand.view);
      }
      // Plain memory behind an operand that must be plain.
      if (!desc.ok()) return desc.status();
      if (any[i]) {
        *desc =
            Desc(operand.view.dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
      }
      chosen->descs.push_back(*desc);
      chosen->layouts.push_back(type.layout);
    }
    RETURN_IF_ERROR(MakeDescriptor(call, form, chosen));
    if (std::none_of(any.begin(), any.end(), [](bool b) { return b; })) return absl::OkStatus();
    std::vector<Desc> wanted(any.size());
    for (size_t i = 0; i < any.size(); ++i) {
      if (!any[i]) continue;
      wanted[i] = chosen->descriptor.query_md(dnnl::query::exec_arg_md, form.operands[i].argument);
    }
    // By any name of those layouts that there is code for: of an axis of one element the
    // stride means nothing, but oneDNN's choice of code may go by it.
    for (bool exact : {false, true}) {
      const absl::Status status = GiveNames(call, form, wanted, exact, &any, chosen);
      if (status.ok() || (exact && absl::IsUnimplemented(status))) return status;
      if (!absl::IsUnimplemented(status)) break;  // one has no name: another round
    }
  }
  return absl::UnimplementedError("oneDNN wants layouts that have no name here");
}

absl::StatusOr<Chosen> Choose(const KernelCall& call, const Form& form) {
  // What is open and plain is left to oneDNN, unless the form would keep it. What
  // has another layout already keeps it where there is code for it: a new one costs
  // a reorder. Else the smallest of those is given up, or another one, or all.
  std::vector<bool> any, all;
  std::vector<std::pair<int64_t, size_t>> kept;  // bytes, operand
  for (size_t i = 0; i < form.operands.size(); ++i) {
    const Operand& operand = form.operands[i];
    const TensorType& type = *TypeOf(call, operand);
    all.push_back(IsOpen(call, operand) && operand.like < 0);
    any.push_back(all[i] && type.layout.plain() && !operand.keep);
    if (any[i] != all[i]) kept.emplace_back(type.bytes(), i);
  }
  Chosen chosen;
  absl::Status status = Try(call, form, any, &chosen);
  if (status.ok()) return chosen;
  std::sort(kept.begin(), kept.end());
  for (size_t k = 0; k < kept.size() && kept.size() > 1; ++k) {
    std::vector<bool> freed = any;
    freed[kept[k].second] = true;
    status = Try(call, form, std::move(freed), &chosen);
    if (status.ok()) return chosen;
  }
  if (!kept.empty()) status = Try(call, form, all, &chosen);
  if (!status.ok()) return status;
  return chosen;
}

// A primitive, its scratch and its team of threads.
class OneDnnKernel : public BoundKernel {
 public:
  explicit OneDnnKernel(int threads) : threads_(threads) {}
  absl::Status Run() override {
    for (const auto& [data, bytes] : cleared) std::memset(data, 0, bytes);
    const TeamSizeScope size(threads_);
    return primitive.Run();
  }
  BoundPrimitive primitive;
  std::vector<std::pair<void*, size_t>> cleared;

 private:
  int threads_;
};

}  // namespace

const dnnl::engine& CpuEngine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::dims ToDnnl(absl::Span<const int64_t> dims) {
  return dnnl::memory::dims(dims.begin(), dims.end());
}

View View::Same(const Dims& dims) { return {Kind::kSame, ToDnnl(dims), {}}; }
View View::Swapped(const Dims& dims) { return {Kind::kSwapped, {dims[1], dims[0]}, {}}; }
View View::Groups(const Dims& dims, int64_t groups) {
  dnnl::memory::dims seen = {groups, dims[0] / groups};
  seen.insert(seen.end(), dims.begin() + 1, dims.end());
  return {Kind::kGroups, std::move(seen), {}};
}
View View::Shaped(dnnl::memory::dims dims, dnnl::memory::dims strides) {
  if (strides.empty()) strides = ToDnnl(Strides(Dims(dims.begin(), dims.end())));
  return {Kind::kShaped, std::move(dims), std::move(strides)};
}

absl::StatusOr<Desc> DescriptorOf(const TensorType& type, const View& view) {
  if (type.dtype != DataType::kFloat32) {
    return absl::UnimplementedError(absl::StrCat(std::string(Name(type.dtype)), " tensors"));
  }
  try {
    if (view.kind == View::Kind::kShaped) {
      if (!type.layout.plain()) {
        return absl::UnimplementedError(absl::StrCat("layout ", ToString(type.layout)));
      }
      return Desc(view.dims, dnnl::memory::data_type::f32, view.strides);
    }
    ASSIGN_OR_RETURN(const Layout seen, ToView(type.layout, view, type.dims.size()));
    const std::string tag = TagOf(OrderOf(seen, view.dims.size()), seen.blocks);
    const auto it = Tags().find(tag);
    if (it == Tags().end()) {
      return absl::UnimplementedError(absl::StrCat("oneDNN has no layout ", tag));
    }
    return Desc(view.dims, dnnl::memory::data_type::f32,
                static_cast<dnnl::memory::format_tag>(it->second));
  } catch (const dnnl::error& e) {
    return absl::UnimplementedError(absl::StrCat("oneDNN: ", e.what()));
  }
}

std::optional<Layout> LayoutOf(const Desc& desc, const Dims& dims, const View& view, bool exact) {
  const auto same = [&](const Layout& layout) {
    const absl::StatusOr<Desc> made = DescriptorOf({DataType::kFloat32, dims, layout}, view);
    return made.ok() && *made == desc && (!exact || made->get_strides() == desc.get_strides());
  };
  if (same(Layout{})) return Layout{};
  if (dims.size() >= 3 && view.kind == View::Kind::kSame) {
    const Layout last = Layout::ChannelsLast(static_cast<int>(dims.size()));
    if (same(last)) return last;
  }
  try {
    Layout seen;
    const dnnl::memory::dims strides = desc.get_strides(), blocks = desc.get_inner_blks(),
                             axes = desc.get_inner_idxs();
    std::vector<int> order(desc.get_ndims());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return strides[a] > strides[b]; });
    seen.order.assign(order.begin(), order.end());
    for (size_t i = 0; i < blocks.size(); ++i) {
      seen.blocks.push_back({static_cast<int>(axes[i]), blocks[i]});
    }
    std::optional<Layout> layout = FromView(seen, view);
    if (layout && std::is_sorted(layout->order.begin(), layout->order.end())) {
      layout->order.clear();
    }
    if (layout && same(*layout)) return layout;
  } catch (const dnnl::error&) {
    // No blocked memory: fall through.
  }
  return std::nullopt;
}

absl::Status OnlyFilledFloats(const KernelCall& call) {
  for (const auto* types : {&call.inputs, &call.outputs}) {
    for (const TensorType* type : *types) {
      if (type == nullptr) continue;
      if (type->dtype != DataType::kFloat32) {
        return absl::UnimplementedError(absl::StrCat(std::string(Name(type->dtype)), " tensors"));
      }
      if (type->elements() == 0) return absl::UnimplementedError("empty tensors");
      // The library counts in int: with more it divides by zero or worse.
      if (type->elements() / std::max<int64_t>(1, type->dims.empty() ? 1 : type->dims.back()) >
              INT32_MAX ||
          (!type->dims.empty() && type->dims.back() > INT32_MAX)) {
        return absl::UnimplementedError("tensors of such extents");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Guarded(int threads, const std::function<void()>& make) {
  const TeamSizeScope size(threads);
  try {
    make();
  } catch (const dnnl::error& e) {
    return absl::UnimplementedError(absl::StrCat("oneDNN: ", e.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("oneDNN: out of memory");
  }
  return absl::OkStatus();
}

void BoundPrimitive::Bind(int argument, const Desc& desc, void* data) {
  memories_.emplace_back(desc, CpuEngine(), data);
  arguments_.push_back({argument, memories_.back().get()});
}

absl::Status BoundPrimitive::Run() {
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN: ", dnnl_status2str(status)));
}

absl::Status Accepts(const KernelCall& call, const Form& form) {
  return Choose(call, form).status();
}

KernelNeeds Describe(const KernelCall& call, const Form& form) {
  KernelNeeds needs;
  const absl::StatusOr<Chosen> chosen = Choose(call, form);
  if (!chosen.ok()) return needs;
  // Tensors that are no operand (constants of shape) stay plain.
  needs.input_layouts.resize(call.inputs.size());
  needs.output_layouts.resize(call.outputs.size());
  for (size_t i = 0; i < form.operands.size(); ++i) {
    const Operand& operand = form.operands[i];
    (operand.output ? needs.output_layouts : needs.input_layouts)[operand.index] =
        chosen->layouts[i];
  }
  needs.scratch_bytes =
      static_cast<int64_t>(chosen->descriptor.query_md(dnnl::query::scratchpad_md).get_size());
  needs.aliases = form.aliases;
  return needs;
}

absl::StatusOr<std::unique_ptr<BoundKernel>> Prepare(const KernelCall& call, const Form& form,
                                                     const KernelMemory& memory,
                                                     const Execution& execution) {
  KernelCall fixed = call;
  fixed.open_inputs = fixed.open_outputs = 0;
  fixed.threads = execution.threads;
  ASSIGN_OR_RETURN(const Chosen chosen, Choose(fixed, form));
  auto kernel = std::make_unique<OneDnnKernel>(execution.threads);
  for (int i : form.cleared) {
    const TensorView& view = memory.outputs[i];
    kernel->cleared.emplace_back(view.data, view.type.bytes());
  }
  RETURN_IF_ERROR(Guarded(execution.threads, [&] {
    for (size_t i = 0; i < form.operands.size(); ++i) {
      const Operand& operand = form.operands[i];
      kernel->primitive.Bind(operand.argument, chosen.descs[i],
                             (operand.output ? memory.outputs : memory.inputs)[operand.index].data);
    }
    const Desc scratch = chosen.descriptor.query_md(dnnl::query::scratchpad_md);
    if (scratch.get_size() > 0) {
      kernel->primitive.Bind(DNNL_ARG_SCRATCHPAD, scratch, memory.scratch);
    }
    kernel->primitive.Set(dnnl::primitive(chosen.descriptor.get()));
  }));
  return std::unique_ptr<BoundKernel>(std::move(kernel));
}

}  // namespace onward::onednn
