// Sixteen lanes as one value: a vector type of the compiler where a register holds them, else halves.
//
// Compilers keep a vector type that is wider than the registers in memory: each operation would load
// its operands and store its result. Halves stay in registers.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64;
#elif defined(__AVX2__)
constexpr int REGISTER_BYTES = 32;
#else
constexpr int REGISTER_BYTES = 16;
#endif

// Two values of half the lanes that count as one.
template <class V>
struct Halves {
  V low, high;

  template <class W>
  inline __attribute__((always_inline)) explicit operator Halves<W>() const {
    return {(W)low, (W)high};
  }
};

template <class V>
constexpr bool are_halves = false;
template <class V>
constexpr bool are_halves<Halves<V>> = true;

// The type of one lane.
template <class V>
struct LaneOf {
  using type = std::decay_t<decltype(V{}[0])>;
};
template <class V>
struct LaneOf<Halves<V>> : LaneOf<V> {};
template <class V>
using Lane = typename LaneOf<V>::type;

template <class T, int BYTES>
struct Vector {
  typedef T type __attribute__((vector_size(BYTES)));
};
template <class T, int COUNT, bool FITS = (COUNT * sizeof(T) <= REGISTER_BYTES)>
struct LanesOf {
  using type = typename Vector<T, COUNT * sizeof(T)>::type;
};
template <class T, int COUNT>
struct LanesOf<T, COUNT, false> {
  using type = Halves<typename LanesOf<T, COUNT / 2>::type>;
};
// COUNT values of type T.
template <class T, int COUNT>
using Lanes = typename LanesOf<T, COUNT>::type;

#define BY_HALVES(OP)                                                                       \
  template <class V>                                                                        \
  INLINE auto operator OP(Halves<V> a, Halves<V> b)->Halves<decltype(a.low OP b.low)> {     \
    return {a.low OP b.low, a.high OP b.high};                                              \
  }                                                                                         \
  template <class V, class S, class = std::enable_if_t<std::is_arithmetic_v<S>>>            \
  INLINE auto operator OP(Halves<V> a, S b)->Halves<decltype(a.low OP b)> {                 \
    return {a.low OP b, a.high OP b};                                                       \
  }
BY_HALVES(+)
BY_HALVES(-)
BY_HALVES(*)
BY_HALVES(/)
BY_HALVES(&)
BY_HALVES(|)
BY_HALVES(^)
BY_HALVES(<<)
BY_HALVES(>>)
BY_HALVES(<)
BY_HALVES(>)
BY_HALVES(<=)
BY_HALVES(>=)
BY_HALVES(==)
BY_HALVES(!=)
#undef BY_HALVES

template <class V>
INLINE Halves<V> operator-(Halves<V> a) {
  return {-a.low, -a.high};
}
template <class V>
INLINE Halves<V> operator~(Halves<V> a) {
  return {~a.low, ~a.high};
}
template <class V>
INLINE Halves<V> &operator+=(Halves<V> &a, Halves<V> b) {
  return a = a + b;
}
template <class V>
INLINE Halves<V> &operator-=(Halves<V> &a, Halves<V> b) {
  return a = a - b;
}
template <class V>
INLINE Halves<V> &operator*=(Halves<V> &a, Halves<V> b) {
  return a = a * b;
}
template <class V>
INLINE Halves<V> &operator|=(Halves<V> &a, Halves<V> b) {
  return a = a | b;
}

// `a` where the mask is set, else `b`.
template <class M, class V>
INLINE V chosen(M mask, V a, V b) {
  if constexpr (are_halves<V>)
    return {chosen(mask.low, a.low, b.low), chosen(mask.high, a.high, b.high)};
  else
    return mask ? a : b;
}

// Values at any address.
template <class V>
INLINE V read(const void *from) {
  if constexpr (are_halves<V>) {
    using Half = decltype(V::low);
    return {read<Half>(from), read<Half>((const char *)from + sizeof(Half))};
  } else {
    typedef V anywhere __attribute__((aligned(1), may_alias));
    return *(const anywhere *)from;
  }
}
template <class V>
INLINE void write(void *to, V v) {
  if constexpr (are_halves<V>) {
    write(to, v.low);
    write((char *)to + sizeof v.low, v.high);
  } else {
    typedef V anywhere __attribute__((aligned(1), may_alias));
    *(anywhere *)to = v;
  }
}

// Each value as one of the type of W.
template <class W, class V>
INLINE W converted_to(V v) {
  if constexpr (!are_halves<V>) {
    return __builtin_convertvector(v, W);
  } else if constexpr (are_halves<W>) {
    using Half = decltype(W::low);
    return {converted_to<Half>(v.low), converted_to<Half>(v.high)};
  } else {  // narrower values, which one register holds
    using Half = typename Vector<Lane<W>, sizeof(W) / 2>::type;
    Half halves[2] = {converted_to<Half>(v.low), converted_to<Half>(v.high)};
    W all;
    memcpy(&all, halves, sizeof all);
    return all;
  }
}

// Values of a narrower type N at any address, as those of W.
template <class W, class N>
INLINE W widened_from(const void *from) {
  if constexpr (are_halves<W>) {
    using Half = decltype(W::low);
    constexpr int BYTES = sizeof(Half) / sizeof(Lane<Half>) * sizeof(N);
    return {widened_from<Half, N>(from), widened_from<Half, N>((const char *)from + BYTES)};
  } else {
    using Narrow = typename Vector<N, sizeof(W) / sizeof(Lane<W>) * sizeof(N)>::type;
    return __builtin_convertvector(read<Narrow>(from), W);
  }
}

// The same value in all lanes.
template <class V, class S>
INLINE V filled(S value) {
  if constexpr (are_halves<V>) {
    auto half = filled<decltype(V::low)>(value);
    return {half, half};
  } else {
    return value - V{};
  }
}

// What `join` makes of all lanes, two by two.
template <class V, class Join>
INLINE auto joined(V v, Join join) {
  if constexpr (are_halves<V>) {
    return joined(join(v.low, v.high), join);
  } else {
    auto all = v[0];
    UNROLL
    for (int i = 1; i < (int)(sizeof(V) / sizeof(v[0])); i++) all = join(all, v[i]);
    return all;
  }
}
