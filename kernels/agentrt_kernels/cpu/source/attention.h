// Attention over pages, where they lie.
//
// A block is some rows of one sequence; with some heads of keys and values it is up to QUERIES queries
// that see the same pages. They walk these tile by tile: keys are turned so that a register holds
// sixteen tokens, values so that it holds a slice of a head, and weights are taken against a score
// that is raised only where a tile exceeds it by far. A row that decodes takes all heads at once, so
// that a page is read in one go. What a block sees may be cut into parts, and a prefix that several
// sequences share is one more part, walked once for all of them; parts are joined by their
// log-sum-exp.
//
// `T` is the type of queries and results, `S` that of stored keys and values: the same, or codes.
#pragma once
#include <algorithm>
#include <vector>

#include "kv_codes.h"
#include "rows.h"
#include "team.h"

constexpr int TILE = 64;      // tokens
constexpr int QUERIES = 64;   // of one block
constexpr int PART = 128;     // tokens, the least that is worth a part of its own
// Scores count in powers of two. Weights are taken against a score that none exceeds by more than
// this: most tiles then leave what was summed before as it is.
constexpr float SLACK = 16.0f;
constexpr float HIDDEN = -1e30f;
constexpr float LOG2_E = 1.44269504f;
#if defined(__AVX512F__)
constexpr int QUERY_STEP = 4;  // queries whose scores stay in registers
constexpr int COLUMNS = 4;     // registers a query
#else
constexpr int QUERY_STEP = 2;
constexpr int COLUMNS = 1;
#endif

struct Score {
  float scaling, softcap;  // softcap 0: none
  int32_t window;          // 0: all is seen
  int32_t unseen;          // first tokens of a context that no row sees, but each of them itself
  const float *sinks;
};

struct Rows {
  const int32_t *query_start, *kv_tokens, *table;
  int64_t table_stride;
  int32_t sequences, groups;
  const int32_t *member_start, *members, *prefix_tokens, *prefix_table;
  int64_t prefix_stride;
};

struct Heads {
  const void *query;
  int64_t query_stride, query_head_stride;
  void *out;
  int64_t out_stride, out_head_stride;
  int32_t heads;
};

// Rows of one sequence that walk together.
struct Block {
  int32_t sequence, first_row, rows, position;  // of the first row
  int32_t begin, end;                           // tokens that some row sees, prefix left out
  int32_t parts, prefix_parts;
  int64_t slot;  // of its first partial result, for its first head of keys and values
};

struct Item {
  int32_t block, group, first, count;  // a group's members first .. first + count, or a block
  int32_t begin, end, part;
  int32_t head, heads;  // of keys and values
};

struct Plan {
  std::vector<Block> blocks;
  std::vector<Item> items;
  std::vector<int32_t> block_of;  // a sequence's only block
  std::vector<int32_t> group_of;
  int64_t slots = 0;
  bool joins = false;
  int64_t tokens_seen = 0;
};

INLINE int first_seen(int position, const Score &how) {
  int low = how.window > 0 ? position - how.window + 1 : 0;
  return std::min(std::max(low, how.unseen), position);
}

static void plan_attention(Plan &plan, const Rows &rows, int kv_heads, int shared, const Score &how,
                           int threads) {
  plan.blocks.clear();
  plan.items.clear();
  plan.slots = 0;
  plan.joins = false;
  plan.tokens_seen = 0;
  plan.group_of.assign(rows.sequences, -1);
  plan.block_of.assign(rows.sequences, -1);
  for (int group = 0; group < rows.groups; group++)
    for (int at = rows.member_start[group]; at < rows.member_start[group + 1]; at++)
      plan.group_of[rows.members[at]] = group;
  int most_rows = std::max(1, QUERIES / shared);
  for (int sequence = 0; sequence < rows.sequences; sequence++) {
    int from = rows.query_start[sequence], past = rows.query_start[sequence + 1];
    int group = plan.group_of[sequence];
    plan.block_of[sequence] = (int)plan.blocks.size();
    for (int at = from; at < past; at += most_rows) {
      Block block{};
      block.sequence = sequence;
      block.first_row = at;
      block.rows = std::min(most_rows, past - at);
      block.position = rows.kv_tokens[sequence] - (past - at);
      block.end = block.position + block.rows;
      block.begin = first_seen(block.position, how);
      if (group >= 0) block.begin = std::max(block.begin, rows.prefix_tokens[group]);
      plan.tokens_seen += (int64_t)(block.end - block.begin) * block.rows;
      plan.blocks.push_back(block);
    }
  }
  // Enough items that no thread waits long for another's last.
  int64_t walked = 0;
  for (const Block &block : plan.blocks) walked += block.end - block.begin;
  for (int group = 0; group < rows.groups; group++) {
    int64_t members = rows.member_start[group + 1] - rows.member_start[group];
    walked += rows.prefix_tokens[group];
    plan.tokens_seen += members * rows.prefix_tokens[group];
  }
  int part = 1 << 30;
  if (threads > 1) {
    int64_t wanted = walked / (4 * threads) + 1;
    part = (int)std::min<int64_t>(1 << 30, std::max<int64_t>(PART, (wanted + TILE - 1) / TILE * TILE));
  }
  for (int index = 0; index < (int)plan.blocks.size(); index++) {
    Block &block = plan.blocks[index];
    block.parts = std::max(1, (block.end - block.begin) / part);
    int group = plan.group_of[block.sequence];
    if (group >= 0) block.prefix_parts = std::max(1, rows.prefix_tokens[group] / part);
    int all_parts = block.parts + block.prefix_parts;
    if (all_parts > 1) {
      plan.joins = true;
      block.slot = plan.slots;
      plan.slots += (int64_t)all_parts * block.rows * shared * kv_heads;
    }
    int length = block.end - block.begin;
    int step = ((length + block.parts - 1) / block.parts + TILE - 1) / TILE * TILE;
    int most_heads = std::max(1, QUERIES / (block.rows * shared));
    for (int at = 0; at < block.parts; at++)
      for (int head = 0; head < kv_heads; head += most_heads)
        plan.items.push_back(Item{index, -1, 0, 0, block.begin + std::min(length, at * step),
                                  block.begin + std::min(length, (at + 1) * step), at, head,
                                  std::min(most_heads, kv_heads - head)});
  }
  int most_members = std::max(1, QUERIES / shared);
  for (int group = 0; group < rows.groups; group++) {
    int tokens = rows.prefix_tokens[group], parts = std::max(1, tokens / part);
    int step = ((tokens + parts - 1) / parts + TILE - 1) / TILE * TILE;
    for (int at = rows.member_start[group]; at < rows.member_start[group + 1]; at += most_members)
      for (int which = 0; which < parts; which++) {
        int count = std::min(most_members, rows.member_start[group + 1] - at);
        int most_heads = std::max(1, QUERIES / (count * shared));
        for (int head = 0; head < kv_heads; head += most_heads)
          plan.items.push_back(Item{-1, group, at, count, std::min(tokens, which * step),
                                    std::min(tokens, (which + 1) * step), which, head,
                                    std::min(most_heads, kv_heads - head)});
      }
  }
  // The longest first, so that what is left at the end is short.
  if (threads > 1)
    std::stable_sort(plan.items.begin(), plan.items.end(), [&](const Item &a, const Item &b) {
      auto cost = [&](const Item &item) {
        int queries = item.block >= 0 ? plan.blocks[item.block].rows : item.count;
        return (int64_t)(item.end - item.begin) * (queries * shared + 8) * item.heads;
      };
      return cost(a) > cost(b);
    });
}

// Scratch memory of one thread.
struct Walk {
  int count, each, dim, padded;  // queries, those of one head; head_dim; up to whole registers
  int low[QUERIES], past[QUERIES];             // tokens that each query sees
  float most[QUERIES], total[QUERIES][LANES];  // the score that weights are taken against, their sum
  std::vector<float> memory;
  float *out;      // [QUERIES][padded]
  uint32_t *query;  // [QUERIES][dim] fp32, or pairs of bf16 where dot products of them are quick
  uint32_t *keys;   // [dim][TILE] fp32, or pairs of bf16 [dim / 2][TILE]
  uint32_t *values;  // [TILE][padded] fp32, or pairs [TILE / 2][padded]
  float *scores;    // [QUERY_STEP][TILE]
  float key_scales[TILE], value_scales[TILE];  // of codes
  const void *rows_now[TILE], *rows_next[TILE], **key_rows, **next_rows;

  void fit(int head_dim) {
    dim = head_dim;
    padded = (dim + LANES - 1) / LANES * LANES;
    size_t wanted = (size_t)QUERIES * padded * 2 + (size_t)TILE * padded * 2 + QUERY_STEP * TILE + 16;
    if (memory.size() < wanted) memory.resize(wanted);
    float *at = memory.data();
    at += (64 - (uintptr_t)at % 64) % 64 / sizeof(float);
    out = at;
    query = (uint32_t *)(out + (size_t)QUERIES * padded);
    keys = query + (size_t)QUERIES * padded;
    values = keys + (size_t)TILE * padded;
    scores = (float *)(values + (size_t)TILE * padded);
  }
};

template <class T>
constexpr bool pairs_of() {
  return HAS_BF16_DOT && sizeof(T) == 2;
}

// Whether pairs meet what is fp32: queries and weights, value by value.
template <class T>
constexpr bool meets_floats() {
  return pairs_of<T>() && !QUICK_BF16_DOT;
}

template <class S>
constexpr bool are_codes() {
  return sizeof(S) == 1;
}

// Where the keys of tokens at .. at + TILE lie; what is past `end` repeats the last.
template <class S>
static void find_rows(const void **rows, const Pages &pages, const int32_t *table, int at, int end) {
  int page = at / pages.page_tokens, offset = at % pages.page_tokens;
  const S *base = (const S *)pages.memory;
  const S *row = nullptr;
  for (int token = 0; token < TILE; token++) {
    if (at + token < end) {
      row = base + table[page] * pages.page_stride + offset * pages.token_stride;
      if (++offset == pages.page_tokens) offset = 0, page++;
    }
    rows[token] = row;
  }
}

// The scales of one head for tokens at .. at + TILE; 0 past `end`. Those of the tile behind are
// prefetched.
static void find_scales(Walk &walk, const Pages &pages, const int32_t *table, int head, int at,
                        int end) {
  int page = at / pages.page_tokens, offset = at % pages.page_tokens, token = 0;
  int tokens = std::min(TILE, end - at);
  const bf16 *base = pages.scales + head * pages.scale_head_stride;
  while (token < tokens) {
    int run = std::min(pages.page_tokens - offset, tokens - token), i = 0;
    const bf16 *keys = base + table[page++] * pages.scale_page_stride + offset;
    const bf16 *values = keys + pages.scale_value_offset;
    for (; i + LANES <= run; i += LANES) {
      store(walk.key_scales + token + i, load(keys + i));
      store(walk.value_scales + token + i, load(values + i));
    }
    for (; i < run; i++) {
      walk.key_scales[token + i] = widen(keys[i]);
      walk.value_scales[token + i] = widen(values[i]);
    }
    token += run;
    offset = 0;
  }
  for (; token < TILE; token++) walk.key_scales[token] = walk.value_scales[token] = 0;
  for (int next = at + TILE; next < std::min(end, at + 2 * TILE); next += pages.page_tokens) {
    const bf16 *keys = base + table[next / pages.page_tokens] * pages.scale_page_stride;
    __builtin_prefetch(keys, 0, 2);
    __builtin_prefetch(keys + pages.scale_value_offset, 0, 2);
  }
}

// Prefetch the same part of the next tile while this one is computed: a burst of such loads would
// wait for the few that a core can have under way.
template <class S>
INLINE void prefetch_head(const void *row, int64_t head, int dim) {
  const char *from = (const char *)((const S *)row + head);
  for (int at = 0; at < dim * (int)sizeof(S); at += 64) __builtin_prefetch(from + at, 0, 2);
}

// Words of sixteen tokens become columns: what one register holds of each.
template <class S>
INLINE void turn_words(const void **rows, int64_t at, u32 (&row)[LANES]) {
  UNROLL
  for (int i = 0; i < LANES; i++) row[i] = load_bits((const S *)rows[i] + at);
  transpose(row);
}

template <class T, class S>
static void turn_keys(Walk &walk, int64_t head, int groups) {
  int dim = walk.dim;
  if (pairs_of<T>()) {
    int words = dim / 2;
    for (int group = 0; group < groups; group++) {
      const void **rows = walk.key_rows + group * LANES;
      for (int i = 0; i < LANES; i++)
        prefetch_head<S>(walk.next_rows[group * LANES + i], head, dim);
      uint32_t *keys = walk.keys + group * LANES;
      u32 row[LANES];
      int word = 0;
      if (are_codes<S>())  // turned four at a time, which halves what is shuffled
        for (; word + 2 * LANES <= words; word += 2 * LANES) {
          turn_words<S>(rows, head + 2 * word, row);
          UNROLL
          for (int i = 0; i < LANES; i++) {
            store_bits(keys + (size_t)(word + 2 * i) * TILE, first_pair<S>(row[i]));
            store_bits(keys + (size_t)(word + 2 * i + 1) * TILE, last_pair<S>(row[i]));
          }
        }
      for (; word + LANES <= words; word += LANES) {
        UNROLL
        for (int i = 0; i < LANES; i++) row[i] = load_pairs((const S *)rows[i] + head + 2 * word);
        transpose(row);
        UNROLL
        for (int i = 0; i < LANES; i++) store_bits(keys + (size_t)(word + i) * TILE, row[i]);
      }
      for (; word < words; word++)
        UNROLL
        for (int i = 0; i < LANES; i++)
          keys[(size_t)word * TILE + i] = pair_at((const S *)rows[i] + head + 2 * word);
    }
    return;
  }
  for (int group = 0; group < groups; group++) {
    for (int i = 0; i < LANES; i++) prefetch_head<S>(walk.next_rows[group * LANES + i], head, dim);
    int at = 0;
    for (; at + LANES <= dim; at += LANES) {
      u32 row[LANES];
      UNROLL
      for (int i = 0; i < LANES; i++)
        row[i] = (u32)load((const S *)walk.key_rows[group * LANES + i] + head + at);
      transpose(row);
      UNROLL
      for (int i = 0; i < LANES; i++)
        store_bits(walk.keys + (size_t)(at + i) * TILE + group * LANES, row[i]);
    }
    for (; at < dim; at++)
      UNROLL
      for (int i = 0; i < LANES; i++) {
        float value = widen(((const S *)walk.key_rows[group * LANES + i])[head + at]);
        memcpy(walk.keys + (size_t)at * TILE + group * LANES + i, &value, 4);
      }
  }
}

// The values of two tokens in one row: words of their bf16.
INLINE void pair_values(const bf16 *one, const bf16 *two, int dim, uint32_t *to) {
  int at = 0;
  for (; at + 2 * LANES <= dim; at += 2 * LANES)
    pair_words(load_bits(one + at), load_bits(two + at), to + at);
  for (; at + LANES <= dim; at += LANES)
    store_bits(to + at, load_words(one + at) | (load_words(two + at) << 16));
  for (; at < dim; at++) to[at] = one[at].bits | ((uint32_t)two[at].bits << 16);
}
template <class C>
INLINE void pair_values(const C *one, const C *two, int dim, uint32_t *to) {
  int at = 0;
  for (; at + LANES <= dim; at += LANES) store_bits(to + at, row_pairs(one + at, two + at));
  for (; at < dim; at++) {
    C both[2] = {one[at], two[at]};
    to[at] = pair_at(both);
  }
}
INLINE void pair_values(const float *, const float *, int, uint32_t *) {}  // never pairs

template <class T, class S>
static void lay_values(Walk &walk, int64_t head, int tokens) {
  int dim = walk.dim, padded = walk.padded;
  if (pairs_of<T>()) {
    for (int token = 0; token < tokens; token += 2) {
      prefetch_head<S>(walk.next_rows[token], head, dim);
      prefetch_head<S>(walk.next_rows[token + 1], head, dim);
      uint32_t *to = walk.values + (size_t)(token / 2) * padded;
      pair_values((const S *)walk.key_rows[token] + head, (const S *)walk.key_rows[token + 1] + head,
                  dim, to);
      for (int at = dim; at < padded; at++) to[at] = 0;
    }
    return;
  }
  for (int token = 0; token < tokens; token++) {
    prefetch_head<S>(walk.next_rows[token], head, dim);
    const S *from = (const S *)walk.key_rows[token] + head;
    float *to = (float *)walk.values + (size_t)token * padded;
    int at = 0;
    for (; at + LANES <= dim; at += LANES) store(to + at, load(from + at));
    for (; at < dim; at++) to[at] = widen(from[at]);
    for (; at < padded; at++) to[at] = 0;
  }
}

// Sums of N rows of `left` [.., stride], each value by C registers of what a step of `right` has:
// pairs of bf16, by pairs or by two fp32, or fp32.
template <class T, int N, int C>
INLINE void add_products(f32 sums[N][C], const uint32_t *left, size_t stride, const uint32_t *right,
                         size_t step_words, int steps) {
  for (int step = 0; step < steps; step++) {
    u32 value[C];
    f32 one[C], two[C];
    UNROLL
    for (int c = 0; c < C; c++) {
      value[c] = load_bits(right + (size_t)step * step_words + c * LANES);
      one[c] = first_of(value[c]);
      two[c] = second_of(value[c]);
    }
    UNROLL
    for (int n = 0; n < N; n++) {
      const uint32_t *row = left + n * stride;
      if (meets_floats<T>()) {
        f32 first = (f32)all_bits(row[2 * step]), second = (f32)all_bits(row[2 * step + 1]);
        UNROLL
        for (int c = 0; c < C; c++) sums[n][c] = sums[n][c] + first * one[c] + second * two[c];
      } else {
        u32 word = all_bits(row[step]);
        UNROLL
        for (int c = 0; c < C; c++)
          sums[n][c] = pairs_of<T>() ? dot(sums[n][c], value[c], word)
                                     : sums[n][c] + (f32)value[c] * (f32)word;
      }
    }
  }
}

// Products of N queries with C registers of keys.
template <class T, int N, int C>
INLINE void multiply_keys(Walk &walk, int first, int column) {
  int words = pairs_of<T>() ? walk.dim / 2 : walk.dim;
  const uint32_t *query = walk.query + (size_t)first * walk.padded;
  const uint32_t *keys = walk.keys + column * LANES;
  f32 sums[N][C];
  UNROLL
  for (int n = 0; n < N; n++)
    UNROLL
    for (int c = 0; c < C; c++) sums[n][c] = all(0);
  add_products<T, N, C>(sums, query, walk.padded, keys, TILE, words);
  UNROLL
  for (int n = 0; n < N; n++)
    UNROLL
    for (int c = 0; c < C; c++) store(walk.scores + n * TILE + (column + c) * LANES, sums[n][c]);
}

// Scale the sums of a query to weights against the score `now`.
INLINE void rescale(Walk &walk, int n, float now) {
  float before = walk.most[n];
  walk.most[n] = now;
  if (before <= HIDDEN) return;
  f32 shrink = all(std::exp2(before - now));
  store(walk.total[n], load(walk.total[n]) * shrink);
  float *out = walk.out + (size_t)n * walk.padded;
  for (int d = 0; d < walk.padded; d += LANES) store(out + d, load(out + d) * shrink);
}

// Scores become weights, in place; a query that sees nothing here weighs nothing. The scales of codes
// are taken into both; the sum of weights is without them.
template <class T, class S>
INLINE void weigh_scores(Walk &walk, int n, float *scores, int groups, const Score &how, int at,
                         int end) {
  constexpr bool PAIRS = pairs_of<T>();
  const i32 ahead = counted();
  int low = walk.low[n] - at, past = std::min(walk.past[n], end) - at;
  f32 s[TILE / LANES], most = all(HIDDEN);
  float scaling = how.softcap > 0 ? how.scaling / how.softcap : how.scaling * LOG2_E;
  UNROLL
  for (int c = 0; c < TILE / LANES; c++) {
    if (c >= groups) break;
    s[c] = load(scores + c * LANES) * all(scaling);
    if (are_codes<S>()) s[c] *= load(walk.key_scales + c * LANES);
    if (how.softcap > 0) s[c] = tanh_of(s[c]) * all(how.softcap * LOG2_E);
    if (low > c * LANES || past < (c + 1) * LANES) {
      i32 place = ahead + c * LANES;
      s[c] = chosen((place >= low) & (place < past), s[c], all(HIDDEN));
    }
    most = largest(most, s[c]);
  }
  if (any(most > all(walk.most[n] + SLACK))) rescale(walk, n, top(most));
  f32 against = all(walk.most[n] <= HIDDEN ? 0.0f : walk.most[n]), total = load(walk.total[n]);
  UNROLL
  for (int c = 0; c < TILE / LANES; c++) {
    if (c >= groups) break;
    f32 weight = power_of_two<PAIRS>(s[c] - against);
    total += weight;
    if (are_codes<S>()) weight *= load(walk.value_scales + c * LANES);
    if (PAIRS && !meets_floats<T>())
      store((bf16 *)scores + c * LANES, weight);
    else
      store(scores + c * LANES, weight);
  }
  store(walk.total[n], total);
}

template <class T, class S, int N>
INLINE void score_queries(Walk &walk, int first, int groups, const Score &how, int at, int end) {
  int column = 0;
  if (COLUMNS > 1 && groups > 2) {
    for (; column < groups; column += COLUMNS) multiply_keys<T, N, COLUMNS>(walk, first, column);
  } else {
    for (; column < groups; column++) multiply_keys<T, N, 1>(walk, first, column);
  }
  for (int n = 0; n < N; n++)
    weigh_scores<T, S>(walk, first + n, walk.scores + n * TILE, groups, how, at, end);
}

template <class T, int N, int C>
INLINE void weigh_slice(Walk &walk, int first, int steps, int d) {
  f32 sums[N][C];
  UNROLL
  for (int n = 0; n < N; n++)
    UNROLL
    for (int c = 0; c < C; c++)
      sums[n][c] = load(walk.out + (size_t)(first + n) * walk.padded + d + c * LANES);
  add_products<T, N, C>(sums, (const uint32_t *)walk.scores, TILE, walk.values + d, walk.padded, steps);
  UNROLL
  for (int n = 0; n < N; n++)
    UNROLL
    for (int c = 0; c < C; c++)
      store(walk.out + (size_t)(first + n) * walk.padded + d + c * LANES, sums[n][c]);
}

template <class T, class S, int N>
static __attribute__((noinline)) void attend_tile(Walk &walk, int first, int groups, int tokens,
                                                  const Score &how, int at, int end) {
  score_queries<T, S, N>(walk, first, groups, how, at, end);
  int steps = pairs_of<T>() ? (tokens + 1) / 2 : tokens;
  int d = 0;
  for (; d + COLUMNS * LANES <= walk.padded; d += COLUMNS * LANES)
    weigh_slice<T, N, COLUMNS>(walk, first, steps, d);
  if (COLUMNS > 2 && d + 2 * LANES <= walk.padded) {
    weigh_slice<T, N, 2>(walk, first, steps, d);
    d += 2 * LANES;
  }
  for (; d < walk.padded; d += LANES) weigh_slice<T, N, 1>(walk, first, steps, d);
}

// All tiles of tokens begin .. end, for the queries that `walk` holds, from head `first` on.
template <class T, class S>
static void walk_pages(Walk &walk, const Pages &pages, const int32_t *table, int first, int heads,
                       const Score &how, int begin, int end) {
  for (int n = 0; n < walk.count; n++) {
    walk.most[n] = HIDDEN;
    store(walk.total[n], all(0));
  }
  memset(walk.out, 0, (size_t)walk.count * walk.padded * sizeof(float));
  const void **now = walk.rows_now, **next = walk.rows_next;
  if (begin < end) find_rows<S>(now, pages, table, begin, end);
  for (int at = begin; at < end; at += TILE) {
    int tokens = std::min(TILE, end - at);
    int groups = (tokens + LANES - 1) / LANES;
    if (at + TILE < end) find_rows<S>(next, pages, table, at + TILE, end);
    walk.key_rows = now;
    walk.next_rows = at + TILE < end ? next : now;
    for (int head = 0; head < heads; head++) {
      int64_t key_at = (first + head) * pages.head_stride, value_at = key_at + pages.value_offset;
      if (are_codes<S>()) find_scales(walk, pages, table, first + head, at, end);
      turn_keys<T, S>(walk, key_at, groups);
      lay_values<T, S>(walk, value_at, (tokens + 1) / 2 * 2);
      int n = head * walk.each, past = n + walk.each;
      for (; n + QUERY_STEP <= past; n += QUERY_STEP)
        attend_tile<T, S, QUERY_STEP>(walk, n, groups, tokens, how, at, end);
      if (QUERY_STEP > 3 && past - n == 3) attend_tile<T, S, 3>(walk, n, groups, tokens, how, at, end);
      if (QUERY_STEP > 2 && past - n == 2) attend_tile<T, S, 2>(walk, n, groups, tokens, how, at, end);
      if (past - n == 1) attend_tile<T, S, 1>(walk, n, groups, tokens, how, at, end);
    }
    std::swap(now, next);
  }
}

template <class T>
INLINE void take_query(Walk &walk, int n, const T *from, int low, int past) {
  walk.low[n] = low;
  walk.past[n] = past;
  uint32_t *to = walk.query + (size_t)n * walk.padded;
  if (pairs_of<T>() && !meets_floats<T>()) {
    memcpy(to, from, walk.dim * sizeof(T));
  } else {
    for (int d = 0; d < walk.dim; d++) ((float *)to)[d] = widen(from[d]);
  }
}

template <class T>
INLINE void put_row(const float *from, float scale, int dim, T *to) {
  int d = 0;
  for (; d + LANES <= dim; d += LANES) store(to + d, load(from + d) * all(scale));
  for (; d < dim; d++) narrow(to + d, from[d] * scale);
}

// Partial results: per slot the largest score, the sum of weights, then the weighted values.
struct Partials {
  float *memory;
  int64_t stride;
};

struct AttendCall {
  const Heads *heads;
  const Pages *pages;
  const Rows *rows;
  const Score *how;
  const Plan *plan;
  Partials partials;
};

INLINE int64_t slot_of(const Block &block, int kv_heads, int shared, int head, int part, int query) {
  int64_t queries = (int64_t)block.rows * shared;
  return block.slot + ((int64_t)part * kv_heads + head) * queries + query;
}

// The queries of rows `row` .. of one block, for one head of keys and values.
template <class T>
INLINE void take_rows(const AttendCall &call, Walk &walk, const Block &block, int head, int past) {
  const Heads &heads = *call.heads;
  int shared = heads.heads / call.pages->kv_heads;
  for (int row = 0; row < block.rows; row++) {
    int position = block.position + row;
    const T *query = (const T *)heads.query + (int64_t)(block.first_row + row) * heads.query_stride +
                     (int64_t)head * shared * heads.query_head_stride;
    int low = first_seen(position, *call.how);
    for (int g = 0; g < shared; g++)
      take_query(walk, walk.count++, query + g * heads.query_head_stride, low,
                 std::min(past, position + 1));
  }
}

// Write one query's values: to the result, or aside until its other parts are there.
template <class T>
static void give_query(const AttendCall &call, Walk &walk, const Block &block, int head, int part,
                       int query, int n) {
  const Heads &heads = *call.heads;
  int shared = heads.heads / call.pages->kv_heads;
  const float *from = walk.out + (size_t)n * walk.padded;
  if (block.parts + block.prefix_parts > 1) {
    int64_t slot = slot_of(block, call.pages->kv_heads, shared, head, part, query);
    float *to = call.partials.memory + slot * call.partials.stride;
    to[0] = walk.most[n];
    to[1] = sum(load(walk.total[n]));
    memcpy(to + LANES, from, walk.padded * sizeof(float));
    return;
  }
  float most = walk.most[n], total = sum(load(walk.total[n])), scale = 1.0f;
  if (call.how->sinks != nullptr) {
    float sink = call.how->sinks[head * shared + query % shared] * LOG2_E;
    float now = std::max(most, sink);
    scale = std::exp2(most - now);
    total = total * scale + std::exp2(sink - now);
  }
  put_row(from, total > 0 ? scale / total : 0.0f, walk.dim,
          (T *)heads.out + (int64_t)(block.first_row + query / shared) * heads.out_stride +
              (head * shared + query % shared) * heads.out_head_stride);
}

template <class T, class S>
static void attend_item(const AttendCall &call, Walk &walk, const Item &item) {
  const Rows &rows = *call.rows;
  const std::vector<Block> &blocks = call.plan->blocks;
  int shared = call.heads->heads / call.pages->kv_heads;
  auto member = [&](int at) -> const Block & {
    return blocks[call.plan->block_of[rows.members[item.first + at]]];
  };
  walk.count = 0;
  int begin = item.begin;
  const int32_t *table;
  if (item.block >= 0) {
    const Block &block = blocks[item.block];
    table = rows.table + block.sequence * rows.table_stride;
    walk.each = block.rows * shared;
    for (int head = 0; head < item.heads; head++)
      take_rows<T>(call, walk, block, item.head + head, item.end);
  } else {
    table = rows.prefix_table + item.group * rows.prefix_stride;
    walk.each = item.count * shared;
    int lowest = item.end;
    for (int head = 0; head < item.heads; head++)
      for (int at = 0; at < item.count; at++)
        take_rows<T>(call, walk, member(at), item.head + head, item.end);
    for (int n = 0; n < walk.each; n++) lowest = std::min(lowest, walk.low[n]);
    begin = std::max(begin, lowest / TILE * TILE);
  }
  walk_pages<T, S>(walk, *call.pages, table, item.head, item.heads, *call.how, begin, item.end);
  for (int n = 0; n < walk.count; n++) {
    int head = item.head + n / walk.each, query = n % walk.each;
    if (item.block >= 0) {
      give_query<T>(call, walk, blocks[item.block], head, item.part, query, n);
    } else {
      const Block &block = member(query / shared);
      give_query<T>(call, walk, block, head, block.parts + item.part, query % shared, n);
    }
  }
}

template <class T>
static void join_parts(const AttendCall &call, Walk &walk, const Block &block, int head) {
  const Heads &heads = *call.heads;
  int shared = heads.heads / call.pages->kv_heads, parts = block.parts + block.prefix_parts;
  for (int query = 0; query < block.rows * shared; query++) {
    auto partial = [&](int part) {
      return call.partials.memory +
             slot_of(block, call.pages->kv_heads, shared, head, part, query) * call.partials.stride;
    };
    float most = HIDDEN, total = 0;
    if (call.how->sinks != nullptr) most = call.how->sinks[head * shared + query % shared] * LOG2_E;
    float sink = most;
    for (int part = 0; part < parts; part++) most = std::max(most, partial(part)[0]);
    if (call.how->sinks != nullptr) total = std::exp2(sink - most);
    memset(walk.out, 0, walk.padded * sizeof(float));
    for (int part = 0; part < parts; part++) {
      const float *from = partial(part);
      if (from[1] == 0) continue;
      float share = std::exp2(from[0] - most);
      total += from[1] * share;
      for (int d = 0; d < walk.padded; d += LANES)
        store(walk.out + d, load(walk.out + d) + load(from + LANES + d) * all(share));
    }
    put_row(walk.out, total > 0 ? 1.0f / total : 0.0f, walk.dim,
            (T *)heads.out + (int64_t)(block.first_row + query / shared) * heads.out_stride +
                (head * shared + query % shared) * heads.out_head_stride);
  }
}

template <class T, class S>
static void attend_items(Worker &me, const AttendCall &call, Walk &walk) {
  me.share((int)call.plan->items.size(),
           [&](int piece) { attend_item<T, S>(call, walk, call.plan->items[piece]); });
}

// The whole attention of a batch, by a team; the plan was made before.
template <class T>
static void apply_attention(Worker &me, const AttendCall &call) {
  static thread_local Walk walk;
  walk.fit(call.pages->head_dim);
  int kv_heads = call.pages->kv_heads;
  switch (call.pages->coding) {
    case KvCoding::NONE: attend_items<T, T>(me, call, walk); break;
    case KvCoding::STEPS: attend_items<T, int8_t>(me, call, walk); break;
    case KvCoding::E4M3: attend_items<T, e4m3>(me, call, walk); break;
  }
  if (call.plan->joins)
    me.share((int)call.plan->blocks.size() * kv_heads, [&](int piece) {
      const Block &block = call.plan->blocks[piece / kv_heads];
      if (block.parts + block.prefix_parts > 1) join_parts<T>(call, walk, block, piece % kv_heads);
    });
}
