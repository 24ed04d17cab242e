/* The functions of headrace/draw.h on a frame of the caller's. */
#include <headrace.h>

#define EXPORT __attribute__((visibility("default")))

static hr_frame framed(uint8_t *pixels, int32_t width, int32_t height) {
    hr_frame frame;
    frame.pixels = pixels;
    frame.width = width;
    frame.height = height;
    return frame;
}

EXPORT void rect(uint8_t *pixels, int32_t width, int32_t height, const float *x) {
    hr_frame frame = framed(pixels, width, height);
    hr_rect(&frame, x[0], x[1], x[2], x[3], hr_rgb(10, 20, 30));
}

EXPORT void line(uint8_t *pixels, int32_t width, int32_t height, const float *x) {
    hr_frame frame = framed(pixels, width, height);
    hr_line(&frame, x[0], x[1], x[2], x[3], x[4], hr_rgb(10, 20, 30));
}

EXPORT void disc(uint8_t *pixels, int32_t width, int32_t height, const float *x) {
    hr_frame frame = framed(pixels, width, height);
    hr_disc(&frame, x[0], x[1], x[2], hr_rgb(10, 20, 30));
}

EXPORT void fill(uint8_t *pixels, int32_t width, int32_t height, const float *x) {
    (void)x;
    hr_frame frame = framed(pixels, width, height);
    hr_fill(&frame, hr_rgb(10, 20, 30));
}

EXPORT float text(uint8_t *pixels, int32_t width, int32_t height, const float *x,
                  const char *words) {
    hr_frame frame = framed(pixels, width, height);
    return hr_text(&frame, x[0], x[1], x[2], hr_rgb(10, 20, 30), words);
}
