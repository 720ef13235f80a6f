// The functions that Python calls: plain C, one struct a call, whose layout `library.py` repeats.
#include "attention.h"
#include "experts.h"
#include "linear.h"
#include "quantised.h"
#include "rounding.h"
#include "rows.h"
#include "sample.h"
#include "stack.h"
#include "team.h"

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

constexpr int64_t WORTH_VALUES = 32768;  // values of rows before threads pay

enum Kind : int32_t { FP32 = 0, BF16 = 1 };

struct NormCall {
  const void *delta;  // or null
  void *residual;
  const void *weight;
  void *out;
  int64_t delta_stride, residual_stride, out_stride;
  int32_t rows, width, kind, wide, centered;  // wide: the weight is fp32
  float epsilon;
};

template <class T, class W>
static void norm(const NormCall &call) {
  auto work = [&](Worker &me) {
    me.share(call.rows, [&](int row) {
      T *residual = (T *)call.residual + row * call.residual_stride;
      if (call.delta != nullptr)
        add_row((const T *)call.delta + row * call.delta_stride, residual, call.width);
      norm_row(residual, (const W *)call.weight, Norm{call.epsilon, call.centered != 0}, call.width,
               (T *)call.out + row * call.out_stride);
    });
  };
  together((int64_t)call.rows * call.width > WORTH_VALUES, work);
}

EXPORT void agentrt_norm(const NormCall *call) {
  if (call->kind == FP32)
    norm<float, float>(*call);
  else if (call->wide)
    norm<bf16, float>(*call);
  else
    norm<bf16, bf16>(*call);
}

struct GateCall {
  const void *gate_up;
  void *out;
  int64_t gate_stride, out_stride;
  Activation activation;
  int32_t rows, width, kind;
};

template <class T>
static void gate(const GateCall &call) {
  auto work = [&](Worker &me) {
    me.share(call.rows, [&](int row) {
      const T *from = (const T *)call.gate_up + row * call.gate_stride;
      gate_row(call.activation, from, from + call.width, call.width,
               (T *)call.out + row * call.out_stride);
    });
  };
  together((int64_t)call.rows * call.width > WORTH_VALUES, work);
}

EXPORT void agentrt_gate(const GateCall *call) {
  call->kind == BF16 ? gate<bf16>(*call) : gate<float>(*call);
}

struct RopeCall {
  Rope rope;
  Pages pages;
  int32_t rows, kind, wide;  // wide: the weights of the norms are fp32
};

EXPORT void agentrt_rope(const RopeCall *call) {
  auto work = [&](Worker &me) {
    me.share(call->rows, [&](int row) {
      if (call->kind == FP32)
        rope_row<float, float>(call->rope, call->pages, row);
      else if (call->wide)
        rope_row<bf16, float>(call->rope, call->pages, row);
      else
        rope_row<bf16, bf16>(call->rope, call->pages, row);
    });
  };
  int64_t width = (call->rope.heads + 2 * call->pages.kv_heads) * call->pages.head_dim;
  together(call->rows * width > WORTH_VALUES, work);
}

struct AttentionCall {
  Heads heads;
  Pages pages;
  Rows rows;
  Score how;
  int32_t kind;
};

EXPORT void agentrt_attend(const AttentionCall *call) {
  static thread_local Plan plan;
  static thread_local std::vector<float> partials;
  Pool *threads = pool.load();
  plan_attention(plan, call->rows, call->pages.kv_heads, call->heads.heads / call->pages.kv_heads,
                 call->how, threads ? threads->threads() : 1);
  int64_t stride = LANES + (call->pages.head_dim + LANES - 1) / LANES * LANES;
  if ((int64_t)partials.size() < plan.slots * stride) partials.resize(plan.slots * stride);
  AttendCall attend{&call->heads, &call->pages, &call->rows, &call->how, &plan,
                    Partials{partials.data(), stride}};
  auto work = [&](Worker &me) {
    if (call->kind == BF16)
      apply_attention<bf16>(me, attend);
    else
      apply_attention<float>(me, attend);
  };
  together(plan.tokens_seen * call->heads.heads * call->pages.head_dim > WORTH_PRODUCTS, work);
}

EXPORT void agentrt_sample(const Sample *call) {
  auto work = [&](Worker &me) { apply_sample(me, *call); };
  together(call->rows > 1 && (int64_t)call->rows * call->tokens > WORTH_VALUES, work);
}

struct CopyCall {
  const char *source;
  char *target;
  const int64_t *pairs;
  int64_t source_stride, target_stride, bytes;
  int32_t count;
};

EXPORT void agentrt_copy(const CopyCall *call) {
  auto work = [&](Worker &me) {
    me.share(call->count, [&](int at) {
      memcpy(call->target + call->pairs[2 * at + 1] * call->target_stride,
             call->source + call->pairs[2 * at] * call->source_stride, call->bytes);
    });
  };
  together(call->count * call->bytes > (1 << 20), work);
}

struct LinearCall {
  Linear linear;
  const void *x;
  void *out;
  int64_t x_stride, out_stride;
  int32_t rows, kind, wide;  // wide: out is fp32
};

EXPORT void agentrt_linear(const LinearCall *call) {
  auto work = [&](Worker &me) {
    if (call->kind == FP32)
      apply_linear(me, call->linear, (const float *)call->x, call->x_stride, call->rows,
                   (float *)call->out, call->out_stride);
    else if (call->wide)
      apply_linear(me, call->linear, (const bf16 *)call->x, call->x_stride, call->rows,
                   (float *)call->out, call->out_stride);
    else
      apply_linear(me, call->linear, (const bf16 *)call->x, call->x_stride, call->rows,
                   (bf16 *)call->out, call->out_stride);
  };
  int64_t products = (int64_t)call->linear.inputs * call->linear.outputs * call->rows;
  together(products > WORTH_PRODUCTS, work);
}

struct PackCall {
  const void *weight;
  void *packed;
  int64_t stride;
  int32_t inputs, outputs, kind, gated;  // gated: rows 0 .. outputs are gates, then what they open
};

// Large pages, so that reading on is not held up at each small one; before memory is first written.
static void use_large_pages(void *memory, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t PAGE = 2 << 20;
  uintptr_t begin = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
  uintptr_t end = ((uintptr_t)memory + bytes) / PAGE * PAGE;
  if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
}

// Which row of a matrix a column of a panel is; -1: none.
static auto row_of_column(int panel, int columns, int outputs) {
  return [=](int column) -> int64_t {
    int row = panel * columns + column % columns;
    if (row >= outputs) return -1;
    return column < columns ? row : row + outputs;
  };
}

template <class T>
static void pack(const PackCall &call) {
  int columns = call.gated ? LANES : PANEL;
  size_t panels = (call.outputs + columns - 1) / columns;
  use_large_pages(call.packed, panels * panel_values<T>(call.inputs) * sizeof(T));
  auto work = [&](Worker &me) {
    me.share((call.outputs + columns - 1) / columns, [&](int panel) {
      pack_panel((const T *)call.weight, call.stride, call.inputs,
                 row_of_column(panel, columns, call.outputs),
                 (T *)call.packed + panel * panel_values<T>(call.inputs));
    });
  };
  together(true, work);
}

EXPORT void agentrt_pack(const PackCall *call) {
  call->kind == BF16 ? pack<bf16>(*call) : pack<float>(*call);
}

struct PackCodesCall {
  const void *values;
  void *packed;
  int64_t stride;
  int32_t inputs, outputs, bits, gated;
  int32_t middle;  // what turns the codes of eight bits into unsigned ones: 128 or 0
};

EXPORT void agentrt_pack_codes(const PackCodesCall *call) {
  int columns = call->gated ? LANES : PANEL;
  int panels = (call->outputs + columns - 1) / columns;
  size_t bytes = code_bytes((call->inputs + STEP - 1) / STEP * STEP, call->bits);
  use_large_pages(call->packed, panels * bytes);
  auto work = [&](Worker &me) {
    me.share(panels, [&](int panel) {
      pack_codes((const uint8_t *)call->values, call->stride, call->inputs, call->bits,
                 row_of_column(panel, columns, call->outputs), call->middle,
                 (uint8_t *)call->packed + panel * bytes);
    });
  };
  together(true, work);
}

template <class T>
static void round_groups(const RoundCall &call) {
  constexpr int64_t VALUES_A_PIECE = 1 << 16;
  bool lanes = fits_lanes(call);
  int64_t groups = (int64_t)call.rows * (call.inputs / std::max(1, call.group));
  int64_t count = lanes ? (groups + LANES - 1) / LANES : call.rows;
  int64_t values = lanes ? LANES * call.group : call.inputs;
  int64_t each = std::max<int64_t>(1, VALUES_A_PIECE / std::max<int64_t>(1, values));
  auto work = [&](Worker &me) {
    me.share((int)((count + each - 1) / each), [&](int piece) {
      for (int64_t at = piece * each; at < std::min(count, (piece + 1) * each); at++)
        lanes ? round_lanes<T>(call, at * LANES, groups) : round_row<T>(call, (int)at);
    });
  };
  together((int64_t)call.rows * call.inputs > WORTH_VALUES, work);
}

EXPORT void agentrt_round(const RoundCall *call) {
  call->kind == BF16 ? round_groups<bf16>(*call) : round_groups<float>(*call);
}

struct GroupedCall {
  const void *x, *weight;
  void *out;
  const int32_t *expert_start;
  int64_t x_stride, out_stride, row_stride, expert_stride;
  int32_t experts, inputs, outputs, kind;
};

// The weights of experts lie as they came: rows of K. Each output is a dot product.
template <class T>
static void grouped(const GroupedCall &call) {
  constexpr int COLUMNS_A_PIECE = 16;
  int pieces = (call.outputs + COLUMNS_A_PIECE - 1) / COLUMNS_A_PIECE;
  auto work = [&](Worker &me) {
    me.share(call.experts * pieces, [&](int piece) {
      int expert = piece / pieces, first = piece % pieces * COLUMNS_A_PIECE;
      int past = std::min(call.outputs, first + COLUMNS_A_PIECE);
      const T *weight = (const T *)call.weight + expert * call.expert_stride;
      for (int row = call.expert_start[expert]; row < call.expert_start[expert + 1]; row++) {
        const T *x = (const T *)call.x + row * call.x_stride;
        T *out = (T *)call.out + row * call.out_stride;
        for (int column = first; column < past; column++) {
          const T *w = weight + column * call.row_stride;
          f32 sums = all(0);
          int k = 0;
          for (; k + LANES <= call.inputs; k += LANES) sums += load(x + k) * load(w + k);
          float total = sum(sums);
          for (; k < call.inputs; k++) total += widen(x[k]) * widen(w[k]);
          narrow(out + column, total);
        }
      }
    });
  };
  int64_t rows = call.expert_start[call.experts];
  together(rows * call.inputs * call.outputs > WORTH_PRODUCTS, work);
}

EXPORT void agentrt_grouped(const GroupedCall *call) {
  call->kind == BF16 ? grouped<bf16>(*call) : grouped<float>(*call);
}

EXPORT void agentrt_experts(const ExpertsCall *call) { run_experts(*call); }

EXPORT void agentrt_stack(const StackCall *call) { run_stack(*call); }

// Give freed memory back to the system: packing leaves the original matrices' memory behind.
EXPORT void agentrt_trim() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// Whether a quantised weight is multiplied by integers: the processor has dot products of bytes.
EXPORT int32_t agentrt_byte_products() { return HAS_BYTE_DOT; }

// The number of threads, and the spins of a waiting thread before it sleeps.
EXPORT void agentrt_threads(int32_t threads, int32_t spins) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, forget_pool); });
  spin_turns.store(spins);
  Pool *now = pool.load();
  if ((now ? now->threads() : 1) == threads) return;
  // Pools are few and their sleeping threads cost nothing: none is ended.
  pool.store(threads > 1 ? new Pool(threads) : nullptr);
}
