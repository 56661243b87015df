#include "codegen/kernels/llvm/emit.h"

#include <algorithm>
#include <vector>

#include "codegen/kernels/llvm/vectors.h"

namespace framejit::codegen {

using graph::DType;

namespace {

constexpr const char* kNoName = "";

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
    LLVMTypeRef parameters[] = {pointer_, v_.i64(), pointer_};
    function_ = LLVMAddFunction(module, name, LLVMFunctionType(LLVMVoidTypeInContext(context_), parameters, 3, false));
    LLVMPositionBuilderAtEnd(builder_, block("entry"));
  }
  ~Emitter() { LLVMDisposeBuilder(builder_); }
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;

  bool run() {
    uint16_t last = 0;
    for (const StepFacts& facts : facts_) last = std::max(last, facts.level);
    read_arguments();
    for (uint16_t level = 0; level <= last; ++level) {
      emit_uniform(level);
      emit_pass(level);
    }
    LLVMBuildRetVoid(builder_);
    return error_->empty();
  }

 private:
  LLVMBasicBlockRef block(const char* name) { return LLVMAppendBasicBlockInContext(context_, function_, name); }

  LLVMValueRef element_of(LLVMValueRef array, size_t index, LLVMTypeRef type) {
    LLVMValueRef at = v_.integer(static_cast<int64_t>(index));
    return LLVMBuildLoad2(builder_, type, LLVMBuildGEP2(builder_, type, array, &at, 1, kNoName), kNoName);
  }

  void read_arguments() {
    count_ = LLVMGetParam(function_, 1);
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      buffers_.push_back(element_of(LLVMGetParam(function_, 0), b, pointer_));
      const bool strided = kernel_.buffers[b].access == Access::kStrided;
      strides_.push_back(strided ? element_of(LLVMGetParam(function_, 2), b, v_.i64()) : nullptr);
    }
    const auto lanes = static_cast<int64_t>(v_.lanes());
    whole_ = LLVMBuildAnd(builder_, count_, v_.integer(-lanes), kNoName);
  }

  // What is the same for the whole row, once all passes below `level` are done.
  void emit_uniform(uint16_t level) {
    for (size_t s = 0; s < kernel_.steps.size(); ++s)
      if (facts_[s].uniform && facts_[s].level == level && kernel_.steps[s].kind != Step::Kind::kReduce)
        emit_step(s, nullptr, nullptr);
  }

  // One walk over the row: whole vectors in a loop, then what is left under a mask.
  void emit_pass(uint16_t level) {
    const std::vector<size_t> ends = ends_of_pass(kernel_, facts_, level);
    if (ends.empty()) return;
    const std::vector<bool> needed = needed_in_pass(kernel_, facts_, ends);
    std::vector<size_t> reductions;
    for (size_t s : ends)
      if (kernel_.steps[s].kind == Step::Kind::kReduce) reductions.push_back(s);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder_);
    LLVMBasicBlockRef loop = block("loop"), rest = block("rest"), tail = block("tail"), done = block("done");
    std::vector<LLVMValueRef> starts;
    starts.reserve(reductions.size());
    for (size_t s : reductions) starts.push_back(v_.start(kernel_.steps[s].op, kernel_.steps[s].type));
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSGT, whole_, v_.integer(0), kNoName), loop, rest);

    LLVMPositionBuilderAtEnd(builder_, loop);
    LLVMValueRef index = LLVMBuildPhi(builder_, v_.i64(), kNoName);
    std::vector<LLVMValueRef> sums = phis(reductions);
    const std::vector<LLVMValueRef> in_loop = sums;
    emit_body(needed, index, nullptr, reductions, sums);
    LLVMValueRef next = LLVMBuildAdd(builder_, index, v_.integer(v_.lanes()), kNoName);
    LLVMBasicBlockRef loop_end = LLVMGetInsertBlock(builder_);
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSLT, next, whole_, kNoName), loop, rest);
    add_incoming(index, v_.integer(0), before);
    add_incoming(index, next, loop_end);
    for (size_t r = 0; r < reductions.size(); ++r) {
      add_incoming(in_loop[r], starts[r], before);
      add_incoming(in_loop[r], sums[r], loop_end);
    }

    LLVMPositionBuilderAtEnd(builder_, rest);
    const std::vector<LLVMValueRef> at_rest = phis(reductions);
    for (size_t r = 0; r < reductions.size(); ++r) {
      add_incoming(at_rest[r], starts[r], before);
      add_incoming(at_rest[r], sums[r], loop_end);
    }
    LLVMBuildCondBr(builder_, LLVMBuildICmp(builder_, LLVMIntSLT, whole_, count_, kNoName), tail, done);

    LLVMPositionBuilderAtEnd(builder_, tail);
    std::vector<LLVMValueRef> in_tail = at_rest;
    LLVMValueRef left = LLVMBuildSub(builder_, count_, whole_, kNoName);
    emit_body(needed, whole_, LLVMBuildICmp(builder_, LLVMIntSLT, v_.iota(), v_.splat(left), kNoName), reductions,
              in_tail);
    LLVMBasicBlockRef tail_end = LLVMGetInsertBlock(builder_);
    LLVMBuildBr(builder_, done);

    LLVMPositionBuilderAtEnd(builder_, done);
    const std::vector<LLVMValueRef> at_end = phis(reductions);
    for (size_t r = 0; r < reductions.size(); ++r) {
      add_incoming(at_end[r], at_rest[r], rest);
      add_incoming(at_end[r], in_tail[r], tail_end);
    }
    for (size_t r = 0; r < reductions.size(); ++r) {
      const Step& step = kernel_.steps[reductions[r]];
      values_[reductions[r]] = v_.across(step.op, step.type, at_end[r]);
    }
  }

  std::vector<LLVMValueRef> phis(const std::vector<size_t>& reductions) {
    std::vector<LLVMValueRef> made;
    made.reserve(reductions.size());
    for (size_t s : reductions)
      made.push_back(LLVMBuildPhi(builder_, v_.vector(v_.scalar(kernel_.steps[s].type)), kNoName));
    return made;
  }

  static void add_incoming(LLVMValueRef phi, LLVMValueRef value, LLVMBasicBlockRef from) {
    LLVMAddIncoming(phi, &value, &from, 1);
  }

  // Elements from `index` on. `sums`: of each reduction what it has so far, and after the body, with these.
  void emit_body(const std::vector<bool>& needed, LLVMValueRef index, LLVMValueRef mask,
                 const std::vector<size_t>& reductions, std::vector<LLVMValueRef>& sums) {
    for (size_t s = 0; s < needed.size(); ++s)
      if (needed[s] && kernel_.steps[s].kind != Step::Kind::kReduce) emit_step(s, index, mask);
    for (size_t r = 0; r < reductions.size(); ++r) {
      const Step& step = kernel_.steps[reductions[r]];
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
    LLVMValueRef offsets = LLVMBuildMul(builder_, lanes, v_.splat(strides_[buffer]), kNoName);
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
    if (from.access == Access::kUniform) {
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
    if (into.access == Access::kUniform) {
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
  std::string* error_;
  LLVMTypeRef pointer_ = nullptr;
  LLVMValueRef function_ = nullptr, count_ = nullptr, whole_ = nullptr;
  std::vector<LLVMValueRef> buffers_, strides_;
};

}  // namespace

bool emit_kernel(LLVMModuleRef module, const Kernel& kernel, const char* name, bool wide, std::string* error) {
  return Emitter(module, kernel, name, wide, error).run();
}

}  // namespace framejit::codegen
