"""headrace.h for environments in Cython: `from headrace cimport *`.

Every name means what the header says of it. The environment is described by HR_ENV, in a block
of C at the end of the file; docs/languages.md shows a whole one.
"""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)


cdef extern from "<stdbool.h>" nogil:
    ctypedef bint bool


cdef extern from "<headrace.h>" nogil:
    # types
    ctypedef struct hr_outcome:
        float reward
        bint terminated
        bint truncated

    ctypedef struct hr_rng:
        uint64_t key
        uint64_t counter

    ctypedef struct hr_frame:
        uint8_t *pixels
        int32_t width
        int32_t height

    ctypedef struct hr_color:
        uint8_t red
        uint8_t green
        uint8_t blue

    ctypedef struct hr_none:
        pass

    # random numbers
    uint64_t hr_bits(hr_rng *rng) noexcept
    float hr_unit(hr_rng *rng) noexcept
    float hr_uniform(hr_rng *rng, float low, float high) noexcept
    void hr_uniforms(hr_rng *rng, float *values, int32_t count, float low, float high) noexcept
    float hr_normal(hr_rng *rng) noexcept
    int32_t hr_randint(hr_rng *rng, int32_t n) noexcept
    bool hr_bernoulli(hr_rng *rng, float probability) noexcept
    void hr_shuffle(hr_rng *rng, int32_t *values, int32_t count) noexcept

    # mathematics
    const float HR_PI
    const float HR_INFINITY
    float hr_fabs(float x) noexcept
    float hr_sqrt(float x) noexcept
    float hr_min(float x, float y) noexcept
    float hr_max(float x, float y) noexcept
    float hr_clamp(float x, float low, float high) noexcept
    float hr_floor(float x) noexcept
    float hr_sin(float x) noexcept
    float hr_cos(float x) noexcept
    float hr_tan(float x) noexcept
    float hr_atan2(float y, float x) noexcept
    float hr_wrap_angle(float x) noexcept
    float hr_exp(float x) noexcept
    float hr_log(float x) noexcept
    float hr_tanh(float x) noexcept

    # drawing
    hr_color hr_rgb(uint8_t red, uint8_t green, uint8_t blue) noexcept
    void hr_fill(hr_frame *frame, hr_color color) noexcept
    void hr_rect(hr_frame *frame, float x, float y, float width, float height,
                 hr_color color) noexcept
    void hr_line(hr_frame *frame, float x0, float y0, float x1, float y1, float thickness,
                 hr_color color) noexcept
    void hr_disc(hr_frame *frame, float x, float y, float radius, hr_color color) noexcept
    float hr_text(hr_frame *frame, float x, float y, float scale, hr_color color,
                  const char *text) noexcept

    # what must hold, in checked builds
    void HR_CHECK(bint condition, const char *message) noexcept
