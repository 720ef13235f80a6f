// All layers of a dense decoder in one call: token ids in, logits out.
//
// A layer without a norm takes the stream as it is; one with a norm behind a part adds that part
// normed. In a parallel layer the gated part takes what attention takes.
//
// Threads are called once and meet between the parts of a layer. The residual stream is fp32; a norm
// of few rows is computed by every thread for itself, which costs less than to meet. After the last
// attention only the rows whose logits are wanted go on.
#pragma once
#include <vector>

#include "attention.h"
#include "linear.h"
#include "lora.h"
#include "quantised.h"
#include "rows.h"

struct StackLayer {
  Linear qkv, out, gate_up, down;
  const LoraMatrix *qkv_lora, *out_lora, *gate_up_lora, *down_lora;  // by adapter, or null
  const float *norm, *out_norm, *inner_norm, *inner_out_norm, *query_norm, *key_norm;  // or null
  const float *angles;
  int64_t norm_stride;  // of the weights of heads; 0: one for all
  int64_t page_offset;  // of this layer's keys inside a page
  int64_t scale_offset;  // of their scales, if they are codes
  float epsilon;
  Score how;
};

// A second input of the first layer, which takes it beside the stream: rows of a table, normed.
struct Paired {
  const void *table;  // or null
  int64_t stride;
  const int64_t *rows;
  const float *norm;
  int32_t normed_stream;  // whether the stream goes on as it was normed
};

struct StackCall {
  const StackLayer *layers;
  const void *embedding;
  const float *norm;
  int64_t embedding_stride;
  Linear head;
  const int64_t *token_ids, *positions, *slots, *wanted;
  const int32_t *adapters, *wanted_adapters;  // of the rows and of the wanted ones; null: none
  int64_t angles_stride;
  float *logits;
  int64_t logits_stride;
  float *layer_outputs;  // [layers, wanted, hidden], the stream behind each layer; or null
  float *captured;  // [tokens, captures, hidden], the stream before some layers; or null
  const int32_t *captured_layers;  // [captures]
  Paired paired;
  Pages pages;
  Rows rows;
  int32_t layer_count, heads, hidden, inner, tokens, wanted_tokens, kind, centered, parallel;
  int32_t lora_ranks;  // the most of a linear
  int32_t captures;
  Activation activation;
  float embedding_scale, residual_scale, epsilon, logits_softcap;  // softcap 0: none
};

struct StackRoom {
  std::vector<float> memory, partials, lowered, paired;
  std::vector<const Score *> scores;  // of each plan
  std::vector<Plan> plans;
  float *stream, *added;
  void *normed, *qkv, *query, *mixed, *inner;
};

template <class T>
INLINE T *lay_out(char *&at, size_t values) {
  T *here = (T *)at;
  at += (values * sizeof(T) + 63) / 64 * 64;
  return here;
}

template <class T>
static void fit_room(StackRoom &room, const StackCall &call) {
  const Pages &pages = call.pages;
  size_t tokens = call.tokens, width = (size_t)(call.heads + 2 * pages.kv_heads) * pages.head_dim;
  size_t mixed = (size_t)call.heads * pages.head_dim;
  size_t bytes = tokens * (call.hidden * (2 * sizeof(float) + sizeof(T)) +
                           (width + 2 * mixed + call.inner) * sizeof(T)) + 8 * 64;
  if (room.memory.size() * sizeof(float) < bytes) room.memory.resize(bytes / sizeof(float) + 1);
  char *at = (char *)room.memory.data();
  at += (64 - (uintptr_t)at % 64) % 64;
  room.stream = lay_out<float>(at, tokens * call.hidden);
  room.added = lay_out<float>(at, tokens * call.hidden);
  room.normed = lay_out<T>(at, tokens * call.hidden);
  room.qkv = lay_out<T>(at, tokens * width);
  room.query = lay_out<T>(at, tokens * mixed);
  room.mixed = lay_out<T>(at, tokens * mixed);
  room.inner = lay_out<T>(at, tokens * call.inner);
  size_t paired = call.paired.table == nullptr ? 0 : 2 * tokens * call.hidden + LANES;
  if (room.paired.size() < paired) room.paired.resize(paired);
  size_t lowered = call.adapters == nullptr ? 0 : tokens * call.lora_ranks;
  if (room.lowered.size() < lowered) room.lowered.resize(lowered);
}

// The plan of layers that see the same tokens; as many as there are plans if none is made yet.
static size_t find_plan(const StackRoom &room, const Score &how) {
  size_t at = 0;
  while (at < room.scores.size() &&
         (room.scores[at]->window != how.window || room.scores[at]->unseen != how.unseen))
    at++;
  return at;
}

static void make_plans(StackRoom &room, const StackCall &call, int threads) {
  room.scores.clear();
  int64_t slots = 0;
  for (int layer = 0; layer < call.layer_count; layer++) {
    const Score &how = call.layers[layer].how;
    size_t at = find_plan(room, how);
    if (at < room.scores.size()) continue;
    room.scores.push_back(&how);
    if (room.plans.size() < room.scores.size()) room.plans.emplace_back();
    Plan &plan = room.plans[at];
    plan_attention(plan, call.rows, call.pages.kv_heads, call.heads / call.pages.kv_heads, how,
                   threads);
    slots = std::max(slots, plan.slots);
  }
  size_t stride = LANES + (call.pages.head_dim + LANES - 1) / LANES * LANES;
  if (room.partials.size() < slots * stride) room.partials.resize(slots * stride);
}

// Rows of the stream, normed for the linear that follows if there is a weight.
template <class T>
static const T *norm_stream(Worker &me, const StackCall &call, const StackRoom &room, int rows,
                            const float *weight, float epsilon) {
  static thread_local std::vector<float> mine;
  int width = call.hidden;
  bool alone = rows <= me.team->threads && me.team->threads > 1;
  T *out = (T *)room.normed;
  if (alone) {
    if (mine.size() < (size_t)rows * width + LANES) mine.resize((size_t)rows * width + LANES);
    out = (T *)mine.data();
  }
  auto work = [&](int row) {
    const float *from = room.stream + (int64_t)row * width;
    T *to = out + (int64_t)row * width;
    if (weight != nullptr) {
      norm_row(from, weight, Norm{epsilon, call.centered != 0}, width, to);
    } else {
      for (int at = 0; at < width; at += LANES) put(to + at, take(from + at, width - at), width - at);
    }
  };
  if (alone)
    for (int row = 0; row < rows; row++) work(row);
  else
    me.share(rows, work);
  return out;
}

// The rows of the paired table and of the stream side by side, both normed.
template <class T>
static const T *pair_stream(Worker &me, const StackCall &call, StackRoom &room, int rows,
                            const StackLayer &layer) {
  int width = call.hidden;
  Norm how{layer.epsilon, call.centered != 0};
  T *out = (T *)room.paired.data();
  me.share(rows, [&](int row) {
    T *left = out + (int64_t)row * 2 * width, *right = left + width;
    const T *table = (const T *)call.paired.table + call.paired.rows[row] * call.paired.stride;
    float *stream = room.stream + (int64_t)row * width;
    norm_row(table, call.paired.norm, how, width, left);
    norm_row(stream, layer.norm, how, width, right);
    if (call.paired.normed_stream)
      for (int at = 0; at < width; at++) stream[at] = widen(right[at]);
  });
  return out;
}

// Add a part of a layer to the stream, normed if there is a weight.
template <class T>
static void add_part(Worker &me, const StackCall &call, const StackRoom &room, const Linear &linear,
                     const LoraRows *lora, const T *x, int x_width, int rows, const float *weight,
                     float epsilon) {
  int width = call.hidden;
  if (weight == nullptr) {
    apply_linear(me, linear, x, x_width, rows, room.stream, width, lora);
    return;
  }
  apply_linear(me, linear, x, x_width, rows, room.added, width, lora);
  me.share(rows, [&](int row) {
    float *part = room.added + (int64_t)row * width, *to = room.stream + (int64_t)row * width;
    norm_row(part, weight, Norm{epsilon, call.centered != 0}, width, part);
    for (int at = 0; at < width; at += LANES) {
      int count = width - at;
      put(to + at, take(to + at, count) + take(part + at, count) * all(call.residual_scale), count);
    }
  });
}

// Copy the wanted rows of the stream behind a layer; those of the last have moved to the front.
static void keep_layer(Worker &me, const StackCall &call, const StackRoom &room, int index) {
  bool last = index + 1 == call.layer_count;
  float *to = call.layer_outputs + (int64_t)index * call.wanted_tokens * call.hidden;
  me.share(call.wanted_tokens, [&](int at) {
    int64_t row = last ? at : call.wanted[at];
    memcpy(to + (int64_t)at * call.hidden, room.stream + row * call.hidden,
           call.hidden * sizeof(float));
  });
}

// Copy all rows of the stream before a layer, if it is one of those that are wanted.
static void capture_stream(Worker &me, const StackCall &call, const StackRoom &room, int index) {
  for (int which = 0; which < call.captures; which++) {
    if (call.captured_layers[which] != index) continue;
    me.share(call.tokens, [&](int row) {
      memcpy(call.captured + ((int64_t)row * call.captures + which) * call.hidden,
             room.stream + (int64_t)row * call.hidden, call.hidden * sizeof(float));
    });
  }
}

static void cap_logits(Worker &me, const StackCall &call) {
  constexpr int PIECE = 4096;
  int width = call.head.outputs, pieces = (width + PIECE - 1) / PIECE;
  f32 cap = all(call.logits_softcap);
  me.share(call.wanted_tokens * pieces, [&](int piece) {
    int first = piece % pieces * PIECE, past = std::min(width, first + PIECE);
    float *row = call.logits + piece / pieces * call.logits_stride;
    for (int at = first; at < past; at += LANES)
      put(row + at, cap * tanh_of(take(row + at, past - at) / cap), past - at);
  });
}

// The adapters of the rows of one linear; null if no row has one.
struct LoraPlace {
  LoraRows rows;

  const LoraRows *of(const LoraMatrix *matrices) {
    rows.matrices = matrices;
    return rows.adapters == nullptr || matrices == nullptr ? nullptr : &rows;
  }
};

template <class T>
static void run_layers(Worker &me, const StackCall &call, StackRoom &room) {
  int tokens = call.tokens, hidden = call.hidden;
  Pages pages = call.pages;
  int64_t dim = pages.head_dim, mixed = call.heads * dim;
  int64_t width = (call.heads + 2 * pages.kv_heads) * dim;
  char *memory = (char *)pages.memory;
  bf16 *scales = pages.scales;
  size_t stored = pages.coding == KvCoding::NONE ? sizeof(T) : 1;
  T *qkv = (T *)room.qkv, *query = (T *)room.query, *values = (T *)room.mixed;
  T *inner = (T *)room.inner;
  me.share(tokens, [&](int row) {
    const T *from = (const T *)call.embedding + call.token_ids[row] * call.embedding_stride;
    float *to = room.stream + (int64_t)row * hidden;
    int at = 0;
    for (; at + LANES <= hidden; at += LANES)
      store(to + at, load(from + at) * all(call.embedding_scale));
    for (; at < hidden; at++) to[at] = widen(from[at]) * call.embedding_scale;
  });
  Heads heads{query, mixed, dim, values, mixed, dim, call.heads};
  int64_t stride = LANES + (dim + LANES - 1) / LANES * LANES;
  LoraPlace lora{{nullptr, call.adapters, room.lowered.data(), call.lora_ranks}};
  for (int index = 0; index < call.layer_count; index++) {
    const StackLayer &layer = call.layers[index];
    pages.memory = memory + layer.page_offset * stored;
    if (scales != nullptr) pages.scales = scales + layer.scale_offset;
    if (call.captured != nullptr) capture_stream(me, call, room, index);
    bool pairs = index == 0 && call.paired.table != nullptr;
    const T *normed = pairs ? pair_stream<T>(me, call, room, tokens, layer)
                            : norm_stream<T>(me, call, room, tokens, layer.norm, layer.epsilon);
    apply_linear(me, layer.qkv, normed, pairs ? 2 * hidden : hidden, tokens, qkv, width, lora.of(layer.qkv_lora));
    Rope rope{qkv,           width,         dim,        call.positions,
              layer.angles,  call.angles_stride, call.slots, layer.query_norm,
              layer.key_norm, layer.norm_stride, layer.epsilon, call.centered,
              call.heads,    query,         mixed,      dim};
    me.share(tokens, [&](int row) { rope_row<T, float>(rope, pages, row); });
    bool last = index + 1 == call.layer_count;
    if (last && call.wanted_tokens == 0) return;
    AttendCall attend{&heads, &pages, &call.rows, &layer.how, &room.plans[find_plan(room, layer.how)],
                      Partials{room.partials.data(), stride}};
    apply_attention<T>(me, attend);
    if (last) {
      me.once([&] {  // wanted rows ascend, so that none is overwritten before it has moved
        for (int at = 0; at < call.wanted_tokens; at++) {
          int64_t row = call.wanted[at];
          memmove(values + at * mixed, values + row * mixed, mixed * sizeof(T));
          memmove(room.stream + (int64_t)at * hidden, room.stream + row * hidden,
                  hidden * sizeof(float));
        }
      });
      tokens = call.wanted_tokens;
      lora.rows.adapters = call.wanted_adapters;
      if (call.parallel)  // the rows that have moved
        normed = norm_stream<T>(me, call, room, tokens, layer.norm, layer.epsilon);
    }
    if (call.parallel) {  // before the stream changes
      apply_linear(me, layer.gate_up, normed, hidden, tokens, inner, call.inner,
                   lora.of(layer.gate_up_lora));
      add_part(me, call, room, layer.out, lora.of(layer.out_lora), values, mixed, tokens,
               layer.out_norm, layer.epsilon);
    } else {
      add_part(me, call, room, layer.out, lora.of(layer.out_lora), values, mixed, tokens,
               layer.out_norm, layer.epsilon);
      normed = norm_stream<T>(me, call, room, tokens, layer.inner_norm, layer.epsilon);
      apply_linear(me, layer.gate_up, normed, hidden, tokens, inner, call.inner,
                   lora.of(layer.gate_up_lora));
    }
    add_part(me, call, room, layer.down, lora.of(layer.down_lora), inner, call.inner, tokens,
             layer.inner_out_norm, layer.epsilon);
    if (call.layer_outputs != nullptr) keep_layer(me, call, room, index);
  }
  const T *normed = norm_stream<T>(me, call, room, tokens, call.norm, call.epsilon);
  apply_linear(me, call.head, normed, hidden, tokens, call.logits, call.logits_stride);
  if (call.logits_softcap > 0) cap_logits(me, call);
}

static void run_stack(const StackCall &call) {
  static thread_local StackRoom room;
  Pool *threads = pool.load();
  if (call.kind == 1)
    fit_room<bf16>(room, call);
  else
    fit_room<float>(room, call);
  make_plans(room, call, threads ? threads->threads() : 1);
  StackRoom *here = &room;
  auto work = [&call, here](Worker &me) {
    if (call.kind == 1)
      run_layers<bf16>(me, call, *here);
    else
      run_layers<float>(me, call, *here);
  };
  together(true, work);
}
