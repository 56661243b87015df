#include "codegen/kernels/llvm/emit.h"

#include <algorithm>
#include <vector>

#include "codegen/kernels/llvm/vectors.h"

namespace framejit::codegen {

using graph::DType;

namespace {

constexpr const char* kNoName = "";

// Elements of a row up to which what a pass computes by a function is kept for the passes after it.
constexpr unsigned kKeptElements = 4096;

class Emitter {
 public:
  Emitter(LLVMModuleRef module, const Kernel& kernel, const char* name, bool wide, std::string* error)
      : context_(LLVMGetModuleContext(module)),
        builder_(LLVMCreateBuilderInContext(context_)),
        v_(context_, module, builder_, wide),
        kernel_(kernel),
        facts_(facts_of(kernel)),
        values_(kernel.steps.size()),
        error_(error) {
    pointer_ = LLVMPointerTypeInContext(context_, 0);
    LLVMTypeRef parameters[] = {pointer_, pointer_, pointer_};
    function_ = LLVMAddFunction(module, name, LLVMFunctionType(LLVMVoidTypeInContext(context_), parameters, 3, false));
    LLVMPositionBuilderAtEnd(builder_, block("entry"));
  }
  ~Emitter() { LLVMDisposeBuilder(builder_); }
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  bool run() {
    read_arguments();
    find_kept();
    if (std::none_of(kept_.begin(), kept_.end(), [](LLVMValueRef memory) { return memory != nullptr; })) {
      emit_row();
      return error_->empty();
    }
    LLVMBasicBlockRef short_row = block("short_row"), long_row = block("long_row");
    LLVMValueRef fits = LLVMBuildICmp(builder_, LLVMIntSLE, sizes_.back(), v_.integer(kKeptElements), kNoName);
    LLVMBuildCondBr(builder_, fits, short_row, long_row);
    LLVMPositionBuilderAtEnd(builder_, short_row);
    emit_row();
    LLVMPositionBuilderAtEnd(builder_, long_row);
    kept_.assign(kept_.size(), nullptr);
    emit_row();
    return error_->empty();
  }

 private:
  LLVMBasicBlockRef block(const char* name) { return LLVMAppendBasicBlockInContext(context_, function_, name); }

  LLVMValueRef element_of(LLVMValueRef array, size_t index, LLVMTypeRef type) {
    LLVMValueRef at = v_.integer(static_cast<int64_t>(index));
    return LLVMBuildLoad2(builder_, type, LLVMBuildGEP2(builder_, type, array, &at, 1, kNoName), kNoName);
  }

  void read_arguments() {
    const size_t depth = kernel_.depth;
    for (size_t d = 0; d < depth; ++d) sizes_.push_back(element_of(LLVMGetParam(function_, 1), d, v_.i64()));
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      buffers_.push_back(element_of(LLVMGetParam(function_, 0), b, pointer_));
      std::vector<LLVMValueRef>& strides = strides_.emplace_back(depth);
      const Access access = kernel_.buffers[b].access;
      for (size_t d = 0; d < depth; ++d)
        if (d + 1 < depth ? access != Access::kUniform : access == Access::kStrided)
          strides[d] = element_of(LLVMGetParam(function_, 2), b * depth + d, v_.i64());
    }
    const auto lanes = static_cast<int64_t>(v_.lanes());
    whole_ = LLVMBuildAnd(builder_, sizes_.back(), v_.integer(-lanes), kNoName);
  }

  uint16_t last_level() const {
    uint16_t last = 0;
    for (const StepFacts& facts : facts_) last = std::max(last, facts.level);
    return last;
  }

  void emit_row() {
    is_done_.assign(kernel_.steps.size(), false);
    for (uint16_t level = 0, last = last_level(); level <= last; ++level) {
      emit_uniform(level);
      emit_pass(level);
    }
    LLVMBuildRetVoid(builder_);
  }

  // Memory for the values of functions that more than one pass needs.
  void find_kept() {
    kept_.assign(kernel_.steps.size(), nullptr);
    if (kernel_.depth != 1) return;
    std::vector<int> passes(kernel_.steps.size());
    for (uint16_t level = 0, last = last_level(); level <= last; ++level) {
      const std::vector<bool> needed = needed_in_pass(kernel_, facts_, ends_of_pass(kernel_, facts_, level));
      for (size_t s = 0; s < needed.size(); ++s) passes[s] += needed[s];
    }
    for (size_t s = 0; s < kernel_.steps.size(); ++s) {
      const Step& step = kernel_.steps[s];
      if (step.kind != Step::Kind::kCompute || !is_function(step.op) || facts_[s].uniform || passes[s] < 2) continue;
      LLVMValueRef size = v_.integer(kKeptElements + v_.lanes());
      kept_[s] = LLVMBuildArrayAlloca(builder_, v_.scalar(step.type), size, kNoName);
    }
  }

  // What is the same for the whole row, once all passes below `level` are done.
  void emit_uniform(uint16_t level) {
    for (size_t s = 0; s < kernel_.steps.size(); ++s)
      if (facts_[s].uniform && facts_[s].level == level && kernel_.steps[s].kind != Step::Kind::kReduce)
        emit_step(s, nullptr, nullptr);
  }

  // What one walk over the row computes.
  struct Pass {
    std::vector<bool> needed;        // by step
    std::vector<size_t> reductions;  // steps
  };
  using Values = std::vector<LLVMValueRef>;  // of a pass, for each of its reductions

  void emit_pass(uint16_t level) {
    const std::vector<size_t> ends = ends_of_pass(kernel_, facts_, level);
    if (ends.empty()) return;
    Pass pass{needed_in_pass(kernel_, facts_, ends, is_done_), {}};
    for (size_t s : ends)
      if (kernel_.steps[s].kind == Step::Kind::kReduce) pass.reductions.push_back(s);
    const Values sums = emit_nest(pass, 0);
    for (size_t r = 0; r < pass.reductions.size(); ++r) {
      const Step& step = kernel_.steps[pass.reductions[r]];
      values_[pass.reductions[r]] = v_.across(step.op, step.type, sums[r]);
    }
    for (size_t s = 0; s < pass.needed.size(); ++s)
      if (pass.needed[s] && kept_[s]) is_done_[s] = true;
  }

  Values starts_of(const Pass& pass) const {
    Values starts;
    starts.reserve(pass.reductions.size());
    for (size_t s : pass.reductions) starts.push_back(v_.start(kernel_.steps[s].op, kernel_.steps[s].type));
    return starts;
  }

  // The loops of the row from `dim` on. Each stretch is reduced by itself and then added to the others, so that a long
  // row is summed in a tree.
  Values emit_nest(const Pass& pass, size_t dim) {
    if (dim + 1 == kernel_.depth) return emit_stretch(pass);
    const Values starts = starts_of(pass);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder_), loop = block("outer"), done = block("outer_done");
    LLVMBuildBr(builder_, loop);
    LLVMPositionBuilderAtEnd(builder_, loop);
    LLVMValueRef index = LLVMBuildPhi(builder_, v_.i64(), kNoName);
    const Values so_far = phis(pass);
    const std::vector<LLVMValueRef> outside = buffers_;
    for (size_t b = 0; b < buffers_.size(); ++b) buffers_[b] = moved(outside[b], index, strides_[b][dim]);
    Values sums = emit_nest(pass, dim + 1);
    buffers_ = outside;
    for (size_t r = 0; r < sums.size(); ++r) {
      const Step& step = kernel_.steps[pass.reductions[r]];
      sums[r] = v_.combine(step.op, step.type, so_far[r], sums[r]);
    }
    LLVMValueRef next = LLVMBuildAdd(builder_, index, v_.integer(1), kNoName);
    LLVMBasicBlockRef loop_end = LLVMGetInsertBlock(builder_);
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSLT, next, sizes_[dim], kNoName), loop, done);
    add_incoming(index, v_.integer(0), before);
    add_incoming(index, next, loop_end);
    add_incoming(so_far, starts, before);
    add_incoming(so_far, sums, loop_end);
    LLVMPositionBuilderAtEnd(builder_, done);
    return sums;
  }

  LLVMValueRef moved(LLVMValueRef from, LLVMValueRef index, LLVMValueRef stride) {
    if (!stride) return from;
    LLVMValueRef offset = LLVMBuildMul(builder_, index, stride, kNoName);
    return LLVMBuildGEP2(builder_, LLVMInt8TypeInContext(context_), from, &offset, 1, kNoName);
  }

  // Whole vectors in a loop, then what is left under a mask.
  Values emit_stretch(const Pass& pass) {
    const Values starts = starts_of(pass);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder_);
    LLVMBasicBlockRef loop = block("loop"), rest = block("rest"), tail = block("tail"), done = block("done");
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSGT, whole_, v_.integer(0), kNoName), loop, rest);

    LLVMPositionBuilderAtEnd(builder_, loop);
    LLVMValueRef index = LLVMBuildPhi(builder_, v_.i64(), kNoName);
    const Values in_loop = phis(pass);
    Values sums = in_loop;
    emit_body(pass, index, nullptr, sums);
    LLVMValueRef next = LLVMBuildAdd(builder_, index, v_.integer(v_.lanes()), kNoName);
    LLVMBasicBlockRef loop_end = LLVMGetInsertBlock(builder_);
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSLT, next, whole_, kNoName), loop, rest);
    add_incoming(index, v_.integer(0), before);
    add_incoming(index, next, loop_end);
    add_incoming(in_loop, starts, before);
    add_incoming(in_loop, sums, loop_end);

    LLVMPositionBuilderAtEnd(builder_, rest);
    const Values at_rest = phis(pass);
    add_incoming(at_rest, starts, before);
    add_incoming(at_rest, sums, loop_end);
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSLT, whole_, sizes_.back(), kNoName), tail, done);

    LLVMPositionBuilderAtEnd(builder_, tail);
    Values in_tail = at_rest;
    LLVMValueRef left = LLVMBuildSub(builder_, sizes_.back(), whole_, kNoName);
    emit_body(pass, whole_, LLVMBuildICmp(builder_, LLVMIntSLT, v_.iota(), v_.splat(left), kNoName), in_tail);
    LLVMBasicBlockRef tail_end = LLVMGetInsertBlock(builder_);
    LLVMBuildBr(builder_, done);

    LLVMPositionBuilderAtEnd(builder_, done);
    Values at_end = phis(pass);
    add_incoming(at_end, at_rest, rest);
    add_incoming(at_end, in_tail, tail_end);
    return at_end;
  }

  Values phis(const Pass& pass) {
    Values made;
    made.reserve(pass.reductions.size());
    for (size_t s : pass.reductions)
      made.push_back(LLVMBuildPhi(builder_, v_.vector(v_.scalar(kernel_.steps[s].type)), kNoName));
    return made;
  }

  static void add_incoming(LLVMValueRef phi, LLVMValueRef value, LLVMBasicBlockRef from) {
    LLVMAddIncoming(phi, &value, &from, 1);
  }
  static void add_incoming(const Values& phis, const Values& values, LLVMBasicBlockRef from) {
    for (size_t i = 0; i < phis.size(); ++i) add_incoming(phis[i], values[i], from);
  }

  // Elements from `index` on. `sums`: of each reduction what it has so far, and after the body, with these.
  void emit_body(const Pass& pass, LLVMValueRef index, LLVMValueRef mask, Values& sums) {
    for (size_t s = 0; s < pass.needed.size(); ++s)
      if (pass.needed[s] && kernel_.steps[s].kind != Step::Kind::kReduce) emit_or_take(s, index, mask);
    for (size_t r = 0; r < pass.reductions.size(); ++r) {
      const Step& step = kernel_.steps[pass.reductions[r]];
      LLVMValueRef value = operand(step, 0);
      if (mask) value = LLVMBuildSelect(builder_, mask, value, v_.start(step.op, step.type), kNoName);
      sums[r] = v_.combine(step.op, step.type, sums[r], value);
    }
  }

  LLVMValueRef operand(const Step& step, size_t which) const {
    return values_[static_cast<size_t>(step.operands[which])];
  }
  DType operand_type(const Step& step, size_t which) const {
    return kernel_.steps[static_cast<size_t>(step.operands[which])].type;
  }

  // A whole vector also at the end of the row: there is room for it.
  void emit_or_take(size_t s, LLVMValueRef index, LLVMValueRef mask) {
    if (!kept_[s]) return emit_step(s, index, mask);
    LLVMTypeRef type = v_.scalar(kernel_.steps[s].type);
    LLVMValueRef at = LLVMBuildGEP2(builder_, type, kept_[s], &index, 1, kNoName);
    if (is_done_[s]) {
      values_[s] = LLVMBuildLoad2(builder_, v_.vector(type), at, kNoName);
      LLVMSetAlignment(values_[s], static_cast<unsigned>(graph::itemsize(kernel_.steps[s].type)));
      return;
    }
    emit_step(s, index, mask);
    if (error_->empty())
      LLVMSetAlignment(LLVMBuildStore(builder_, values_[s], at),
                       static_cast<unsigned>(graph::itemsize(kernel_.steps[s].type)));
  }

  void emit_step(size_t s, LLVMValueRef index, LLVMValueRef mask) {
    if (!error_->empty()) return;
    const Step& step = kernel_.steps[s];
    switch (step.kind) {
      case Step::Kind::kLoad:
        values_[s] = load(step.buffer, index, mask);
        break;
      case Step::Kind::kConstant:
        values_[s] = v_.number(step.number, step.integer, step.type);
        break;
      case Step::Kind::kConvert:
        values_[s] = v_.convert(operand(step, 0), operand_type(step, 0), step.type);
        break;
      case Step::Kind::kRound:
        values_[s] = v_.from_memory(v_.to_memory(operand(step, 0), step.storage), step.storage);
        break;
      case Step::Kind::kCompute: {
        LLVMValueRef operands[3];
        size_t count = 0;
        for (; count < 3 && step.operands[count] >= 0; ++count) operands[count] = operand(step, count);
        values_[s] = v_.compute(step.op, operand_type(step, count - 1), {operands, count}, error_);
        break;
      }
      case Step::Kind::kStore:
        store(step.buffer, v_.to_memory(operand(step, 0), kernel_.buffers[step.buffer].dtype), index, mask);
        break;
      case Step::Kind::kReduce:
        break;
    }
  }

  // Addresses of the lanes: those of elements that are apart.
  LLVMValueRef addresses(uint16_t buffer, LLVMValueRef index) {
    LLVMValueRef lanes = LLVMBuildAdd(builder_, v_.splat(index), v_.iota(), kNoName);
    LLVMValueRef offsets = LLVMBuildMul(builder_, lanes, v_.splat(strides_[buffer].back()), kNoName);
    return LLVMBuildGEP2(builder_, LLVMInt8TypeInContext(context_), buffers_[buffer], &offsets, 1, kNoName);
  }

  LLVMValueRef address(uint16_t buffer, LLVMValueRef index) {
    LLVMTypeRef type = v_.memory(kernel_.buffers[buffer].dtype);
    return LLVMBuildGEP2(builder_, type, buffers_[buffer], &index, 1, kNoName);
  }

  LLVMValueRef all_lanes() { return v_.number(1, 1, DType::kBool); }
  LLVMValueRef alignment(uint16_t buffer) {
    return LLVMConstInt(LLVMInt32TypeInContext(context_),
                        static_cast<uint64_t>(graph::itemsize(kernel_.buffers[buffer].dtype)), false);
  }

  LLVMValueRef load(uint16_t buffer, LLVMValueRef index, LLVMValueRef mask) {
    const Buffer& from = kernel_.buffers[buffer];
    LLVMTypeRef type = v_.memory(from.dtype);
    LLVMTypeRef vector = v_.vector(type);
    LLVMValueRef value;
    if (from.access == Access::kUniform || from.access == Access::kStretched) {
      value = v_.splat(LLVMBuildLoad2(builder_, type, buffers_[buffer], kNoName));
    } else if (from.access == Access::kStrided) {
      LLVMTypeRef overloads[] = {vector, v_.vector(pointer_)};
      LLVMValueRef arguments[] = {addresses(buffer, index), alignment(buffer), mask ? mask : all_lanes(),
                                  LLVMConstNull(vector)};
      value = v_.intrinsic("llvm.masked.gather", overloads, arguments);
    } else if (mask) {
      LLVMTypeRef overloads[] = {vector, pointer_};
      LLVMValueRef arguments[] = {address(buffer, index), alignment(buffer), mask, LLVMConstNull(vector)};
      value = v_.intrinsic("llvm.masked.load", overloads, arguments);
    } else {
      value = LLVMBuildLoad2(builder_, vector, address(buffer, index), kNoName);
      LLVMSetAlignment(value, static_cast<unsigned>(graph::itemsize(from.dtype)));
    }
    return v_.from_memory(value, from.dtype);
  }

  void store(uint16_t buffer, LLVMValueRef value, LLVMValueRef index, LLVMValueRef mask) {
    const Buffer& into = kernel_.buffers[buffer];
    LLVMTypeRef vector = LLVMTypeOf(value);
    if (into.access == Access::kUniform || into.access == Access::kStretched) {
      LLVMValueRef zero = LLVMConstInt(LLVMInt32TypeInContext(context_), 0, false);
      LLVMBuildStore(builder_, LLVMBuildExtractElement(builder_, value, zero, kNoName), buffers_[buffer]);
    } else if (into.access == Access::kStrided) {
      LLVMTypeRef overloads[] = {vector, v_.vector(pointer_)};
      LLVMValueRef arguments[] = {value, addresses(buffer, index), alignment(buffer), mask ? mask : all_lanes()};
      v_.intrinsic("llvm.masked.scatter", overloads, arguments);
    } else if (mask) {
      LLVMTypeRef overloads[] = {vector, pointer_};
      LLVMValueRef arguments[] = {value, address(buffer, index), alignment(buffer), mask};
      v_.intrinsic("llvm.masked.store", overloads, arguments);
    } else {
      LLVMSetAlignment(LLVMBuildStore(builder_, value, address(buffer, index)),
                       static_cast<unsigned>(graph::itemsize(into.dtype)));
    }
  }

  LLVMContextRef context_;
  LLVMBuilderRef builder_;
  Vectors v_;
  const Kernel& kernel_;
  std::vector<StepFacts> facts_;
  std::vector<LLVMValueRef> values_;  // of the pass that is emitted; uniform ones stay
  std::vector<LLVMValueRef> kept_;    // where the values of a step are kept for later passes; null: nowhere
  std::vector<bool> is_done_;         // which of these a pass has kept
  std::string* error_;
  LLVMTypeRef pointer_ = nullptr;
  LLVMValueRef function_ = nullptr;
  LLVMValueRef whole_ = nullptr;                    // of a stretch: what whole vectors cover
  std::vector<LLVMValueRef> sizes_;                 // of the row's loops
  std::vector<LLVMValueRef> buffers_;               // where the loop that is emitted begins in each
  std::vector<std::vector<LLVMValueRef>> strides_;  // of each along the row's loops; null where none is needed
};

}  // namespace

bool emit_kernel(LLVMModuleRef module, const Kernel& kernel, const char* name, bool wide, std::string* error) {
  return Emitter(module, kernel, name, wide, error).run();
}

}  // namespace framejit::codegen
