/* HR_FIELD, HR_DISCRETE, HR_PARAM, HR_ARRAY, HR_METRICS: members of the author's structs,
 * described once. Types, offsets and shapes come from the compiler; C reads them with
 * _Generic, C++ with templates.
 */
#ifndef HEADRACE_DESCRIBE_H
#define HEADRACE_DESCRIBE_H

#include "abi.h"

#define HR__FIELD_RULE                                                                             \
    " must be float, uint8_t, int8_t, int16_t or int32_t, or an array of these with at most 4 "    \
    "dimensions"
#define HR__DISCRETE_RULE " must be int32_t, or an array of int32_t with at most 4 dimensions"
#define HR__PARAM_RULE    " must be float, double, int32_t or int64_t"
#define HR__ARRAY_RULE                                                                             \
    " must be a pointer to const float, double, uint8_t, int8_t, int16_t, int32_t or int64_t"
#define HR__LENGTH_RULE " must be int32_t: the engine writes the array's length there"

#define HR__MEMBER(hr__type, hr__member) (((hr__type *)0)->hr__member)

#ifdef __cplusplus

template <typename hr__T> struct hr__element {
    typedef hr__T type;
    static constexpr int32_t rank = 0;
};
template <typename hr__T, decltype(sizeof 0) hr__count> struct hr__element<hr__T[hr__count]> {
    typedef typename hr__element<hr__T>::type type;
    static constexpr int32_t rank = 1 + hr__element<hr__T>::rank;
};

/* decltype of a parenthesised member is a reference. */
template <typename hr__T> struct hr__referred {
    typedef hr__T type;
};
template <typename hr__T> struct hr__referred<hr__T &> {
    typedef hr__T type;
};
template <typename hr__T> using hr__plain = typename hr__referred<hr__T>::type;

/* Size of the n-th dimension of an array type, 0 beyond its rank. */
template <typename hr__T, int32_t hr__n> struct hr__extent {
    static constexpr int32_t value = 0;
};
template <typename hr__T, decltype(sizeof 0) hr__count> struct hr__extent<hr__T[hr__count], 0> {
    static constexpr int32_t value = (int32_t)hr__count;
};
template <typename hr__T, decltype(sizeof 0) hr__count, int32_t hr__n>
struct hr__extent<hr__T[hr__count], hr__n> : hr__extent<hr__T, hr__n - 1> {};

/* hr_dtype of a C++ type, -1 for those that have none. */
template <typename hr__T> struct hr__dtype {
    static constexpr int32_t value = -1;
};
template <> struct hr__dtype<float> {
    static constexpr int32_t value = HR_FLOAT32;
};
template <> struct hr__dtype<double> {
    static constexpr int32_t value = HR_FLOAT64;
};
template <> struct hr__dtype<uint8_t> {
    static constexpr int32_t value = HR_UINT8;
};
template <> struct hr__dtype<int8_t> {
    static constexpr int32_t value = HR_INT8;
};
template <> struct hr__dtype<int16_t> {
    static constexpr int32_t value = HR_INT16;
};
template <> struct hr__dtype<int32_t> {
    static constexpr int32_t value = HR_INT32;
};
template <> struct hr__dtype<int64_t> {
    static constexpr int32_t value = HR_INT64;
};

/* What a pointer points to; -1 in hr__dtype for anything else. */
template <typename hr__T> struct hr__target {
    typedef void type;
};
template <typename hr__T> struct hr__target<const hr__T *> {
    typedef hr__T type;
};

#define HR__DTYPE(hr__x) (hr__dtype<typename hr__element<hr__plain<decltype(hr__x)>>::type>::value)
#define HR__SCALAR_DTYPE(hr__x) (hr__dtype<hr__plain<decltype(hr__x)>>::value)
#define HR__TARGET_DTYPE(hr__x)                                                                    \
    (hr__dtype<typename hr__target<hr__plain<decltype(hr__x)>>::type>::value)
#define HR__RANK(hr__x) (hr__element<hr__plain<decltype(hr__x)>>::rank)
#define HR__SHAPE(hr__x)                                                                           \
    {hr__extent<hr__plain<decltype(hr__x)>, 0>::value,                                             \
     hr__extent<hr__plain<decltype(hr__x)>, 1>::value,                                             \
     hr__extent<hr__plain<decltype(hr__x)>, 2>::value,                                             \
     hr__extent<hr__plain<decltype(hr__x)>, 3>::value}
/* 0, or a compile error with this message. */
#define HR__REQUIRE(hr__condition, hr__message)                                                    \
    ((int32_t)(0 * sizeof([] { static_assert(hr__condition, hr__message); })))

#else /* C */

/* Dtype of a scalar, -1 for types that have none. */
#define HR__SCALAR_DTYPE(hr__x)                                                                    \
    _Generic((hr__x),                                                                              \
        float: HR_FLOAT32,                                                                         \
        double: HR_FLOAT64,                                                                        \
        uint8_t: HR_UINT8,                                                                         \
        int8_t: HR_INT8,                                                                           \
        int16_t: HR_INT16,                                                                         \
        int32_t: HR_INT32,                                                                         \
        int64_t: HR_INT64,                                                                         \
        default: -1)
#define HR__TARGET_DTYPE(hr__x)                                                                    \
    _Generic((hr__x),                                                                              \
        const float *: HR_FLOAT32,                                                                 \
        const double *: HR_FLOAT64,                                                                \
        const uint8_t *: HR_UINT8,                                                                 \
        const int8_t *: HR_INT8,                                                                   \
        const int16_t *: HR_INT16,                                                                 \
        const int32_t *: HR_INT32,                                                                 \
        const int64_t *: HR_INT64,                                                                 \
        default: -1)

/* One dimension less: the first item of an array, a scalar as it is. */
#define HR__SCALAR_CASES(hr__case)                                                                 \
    hr__case(float), hr__case(double), hr__case(_Bool), hr__case(char), hr__case(signed char),     \
        hr__case(unsigned char), hr__case(short), hr__case(unsigned short), hr__case(int),         \
        hr__case(unsigned int), hr__case(long), hr__case(unsigned long), hr__case(long long),      \
        hr__case(unsigned long long)
#define HR__AS_POINTER(hr__t)                                                                      \
    hr__t:                                                                                         \
    (hr__t *)0
#define HR__AS_ZERO(hr__t)                                                                         \
    hr__t:                                                                                         \
    0
#define HR__IS_ARRAY(hr__x) _Generic((hr__x), HR__SCALAR_CASES(HR__AS_ZERO), default: 1)
#define HR__ITEM(hr__x)  (_Generic((hr__x), HR__SCALAR_CASES(HR__AS_POINTER), default: (hr__x))[0])
#define HR__ITEM2(hr__x) HR__ITEM(HR__ITEM(hr__x))
#define HR__ITEM3(hr__x) HR__ITEM(HR__ITEM2(hr__x))
#define HR__ITEM4(hr__x) HR__ITEM(HR__ITEM3(hr__x))
#define HR__IS_POINTER(hr__x)                                                                      \
    __builtin_types_compatible_p(__typeof__(hr__x), __typeof__(&HR__ITEM(hr__x)))

/* -1 for members that cannot be a field: other types, pointers, five dimensions. */
#define HR__DTYPE(hr__x)                                                                           \
    (HR__IS_POINTER(hr__x) || HR__IS_POINTER(HR__ITEM(hr__x)) || HR__IS_ARRAY(HR__ITEM4(hr__x))    \
         ? -1                                                                                      \
         : HR__SCALAR_DTYPE(HR__ITEM4(hr__x)))
#define HR__RANK(hr__x)                                                                            \
    (HR__IS_ARRAY(hr__x) + HR__IS_ARRAY(HR__ITEM(hr__x)) + HR__IS_ARRAY(HR__ITEM2(hr__x)) +        \
     HR__IS_ARRAY(HR__ITEM3(hr__x)))
#define HR__EXTENT(hr__x)                                                                          \
    (HR__IS_ARRAY(hr__x) ? (int32_t)(sizeof(hr__x) / sizeof(HR__ITEM(hr__x))) : 0)
#define HR__SHAPE(hr__x)                                                                           \
    {HR__EXTENT(hr__x), HR__EXTENT(HR__ITEM(hr__x)), HR__EXTENT(HR__ITEM2(hr__x)),                 \
     HR__EXTENT(HR__ITEM3(hr__x))}
/* 0, or a compile error with this message. */
#define HR__REQUIRE(hr__condition, hr__message)                                                    \
    ((int32_t)(0 * sizeof(struct {                                                                 \
                   _Static_assert(hr__condition, hr__message);                                     \
                   int32_t hr__unused;                                                             \
               })))

#endif /* C */

#define HR__OFFSET(hr__type, hr__member) ((int32_t)__builtin_offsetof(hr__type, hr__member))

/* Member `member` of Obs (or, for a continuous action, of Action): a number or an array of up
 * to four dimensions, every element within [low, high], both inclusive. In Obs its type is
 * float, uint8_t, int8_t, int16_t or int32_t; in Action float. */
#define HR_FIELD(hr__type, hr__member, hr__low, hr__high)                                          \
    {#hr__member,                                                                                  \
     HR_KIND_BOX,                                                                                  \
     HR__DTYPE(HR__MEMBER(hr__type, hr__member)) +                                                 \
         HR__REQUIRE(HR__IS_FIELD(HR__DTYPE(HR__MEMBER(hr__type, hr__member))),                    \
                     #hr__type "." #hr__member HR__FIELD_RULE),                                    \
     HR__OFFSET(hr__type, hr__member),                                                             \
     HR__RANK(HR__MEMBER(hr__type, hr__member)),                                                   \
     HR__SHAPE(HR__MEMBER(hr__type, hr__member)),                                                  \
     (double)(hr__low),                                                                            \
     (double)(hr__high),                                                                           \
     0,                                                                                            \
     0}
#define HR__IS_FIELD(hr__dtype) (HR_FLOAT32 <= (hr__dtype) && (hr__dtype) <= HR_INT32)

/* Member `member` of Action (or Obs): an int32_t, or an array of them, with values from 0 to
 * choices - 1. */
#define HR_DISCRETE(hr__type, hr__member, hr__choices)                                             \
    {#hr__member,                                                                                  \
     HR_KIND_DISCRETE,                                                                             \
     HR_INT32 + HR__REQUIRE(HR__DTYPE(HR__MEMBER(hr__type, hr__member)) == HR_INT32,               \
                            #hr__type "." #hr__member HR__DISCRETE_RULE),                          \
     HR__OFFSET(hr__type, hr__member),                                                             \
     HR__RANK(HR__MEMBER(hr__type, hr__member)),                                                   \
     HR__SHAPE(HR__MEMBER(hr__type, hr__member)),                                                  \
     0.0,                                                                                          \
     (double)((hr__choices) - 1),                                                                  \
     (hr__choices),                                                                                \
     0}

/* Member `member` of Params: a float, double, int32_t or int64_t that Python may set by name;
 * `initial` is its default. */
#define HR_PARAM(hr__member, hr__initial)                                                          \
    {#hr__member,                                                                                  \
     HR__SCALAR_DTYPE(HR__MEMBER(Params, hr__member)) +                                            \
         HR__REQUIRE(HR__IS_PARAM(HR__SCALAR_DTYPE(HR__MEMBER(Params, hr__member))),               \
                     "Params." #hr__member HR__PARAM_RULE),                                        \
     HR__OFFSET(Params, hr__member),                                                               \
     -1,                                                                                           \
     0,                                                                                            \
     (double)(hr__initial)}
#define HR__IS_PARAM(hr__dtype)                                                                    \
    ((hr__dtype) == HR_FLOAT32 || (hr__dtype) == HR_FLOAT64 || (hr__dtype) == HR_INT32 ||          \
     (hr__dtype) == HR_INT64)

/* An array that Python gives and all worlds share: `member` of Params, a pointer to const
 * elements (float, double, uint8_t, int8_t, int16_t, int32_t or int64_t), and `length`, an
 * int32_t member of Params. The engine owns the memory and sets both. */
#define HR_ARRAY(hr__member, hr__length)                                                           \
    {#hr__member,                                                                                  \
     HR__TARGET_DTYPE(HR__MEMBER(Params, hr__member)) +                                            \
         HR__REQUIRE(HR__TARGET_DTYPE(HR__MEMBER(Params, hr__member)) >= 0,                        \
                     "Params." #hr__member HR__ARRAY_RULE) +                                       \
         HR__REQUIRE(HR__SCALAR_DTYPE(HR__MEMBER(Params, hr__length)) == HR_INT32,                 \
                     "Params." #hr__length HR__LENGTH_RULE),                                       \
     HR__OFFSET(Params, hr__member),                                                               \
     HR__OFFSET(Params, hr__length),                                                               \
     0,                                                                                            \
     0.0}

/* Option of HR_ENV: the names of all members of struct Metrics (floats, at most 16), which the
 * `metrics` function fills. */
#define HR_METRICS(...)                                                                            \
    .hr__metrics = {HR__METRICS_LIST(HR__COUNT(__VA_ARGS__), __VA_ARGS__)},                        \
    .hr__metrics_count =                                                                           \
        HR__COUNT(__VA_ARGS__) +                                                                   \
        HR__REQUIRE(HR__COUNT(__VA_ARGS__) > HR__MAX_METRICS ||                                    \
                        sizeof(struct Metrics) == HR__COUNT(__VA_ARGS__) * sizeof(float),          \
                    "HR_METRICS must name every member of struct "                                 \
                    "Metrics, each a float and no array")
#define HR__MAX_METRICS 16
enum { hr__too_many = HR__MAX_METRICS + 1 };
#define HR__METRIC(hr__a)                                                                          \
    {#hr__a, (int64_t)__builtin_offsetof(struct Metrics, hr__a) +                                  \
                 HR__REQUIRE(HR__SCALAR_DTYPE(HR__MEMBER(struct Metrics, hr__a)) == HR_FLOAT32,    \
                             "Metrics." #hr__a " must be float")}
/* How many names these are, from 1 to 16; more of them are hr__too_many. */
#define HR__COUNT(...)                                                                             \
    HR__PICK(__VA_ARGS__, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,    \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many, hr__too_many,   \
             hr__too_many, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define HR__PICK(hr__1, hr__2, hr__3, hr__4, hr__5, hr__6, hr__7, hr__8, hr__9, hr__10, hr__11,    \
                 hr__12, hr__13, hr__14, hr__15, hr__16, hr__17, hr__18, hr__19, hr__20, hr__21,   \
                 hr__22, hr__23, hr__24, hr__25, hr__26, hr__27, hr__28, hr__29, hr__30, hr__31,   \
                 hr__32, hr__33, hr__34, hr__35, hr__36, hr__37, hr__38, hr__39, hr__40, hr__41,   \
                 hr__42, hr__43, hr__44, hr__45, hr__46, hr__47, hr__48, hr__49, hr__50, hr__51,   \
                 hr__52, hr__53, hr__54, hr__55, hr__56, hr__57, hr__58, hr__59, hr__60, hr__61,   \
                 hr__62, hr__63, hr__64, hr__n, ...)                                               \
    hr__n
#define HR__METRICS_LIST(hr__n, ...)  HR__METRICS_PASTE(hr__n, __VA_ARGS__)
#define HR__METRICS_PASTE(hr__n, ...) HR__METRICS_##hr__n(__VA_ARGS__)
#define HR__METRICS_1(hr__a)          HR__METRIC(hr__a)
#define HR__METRICS_2(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_1(__VA_ARGS__)
#define HR__METRICS_3(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_2(__VA_ARGS__)
#define HR__METRICS_4(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_3(__VA_ARGS__)
#define HR__METRICS_5(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_4(__VA_ARGS__)
#define HR__METRICS_6(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_5(__VA_ARGS__)
#define HR__METRICS_7(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_6(__VA_ARGS__)
#define HR__METRICS_8(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_7(__VA_ARGS__)
#define HR__METRICS_9(hr__a, ...)     HR__METRIC(hr__a), HR__METRICS_8(__VA_ARGS__)
#define HR__METRICS_10(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_9(__VA_ARGS__)
#define HR__METRICS_11(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_10(__VA_ARGS__)
#define HR__METRICS_12(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_11(__VA_ARGS__)
#define HR__METRICS_13(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_12(__VA_ARGS__)
#define HR__METRICS_14(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_13(__VA_ARGS__)
#define HR__METRICS_15(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_14(__VA_ARGS__)
#define HR__METRICS_16(hr__a, ...)    HR__METRIC(hr__a), HR__METRICS_15(__VA_ARGS__)
#define HR__METRICS_hr__too_many(...) {0, HR__REQUIRE(0, "HR_METRICS takes at most 16 names")}

#endif /* HEADRACE_DESCRIBE_H */
