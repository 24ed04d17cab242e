/* Calls the kernels of the environment in this file with plain arrays, for the tests: they need
 * no copy of hr_batch or hr_env in Python. Include it after HR_ENV. */

#define EXPORT __attribute__((visibility("default")))

static hr_batch drive_batch;

/* Arrays for the calls below, each of `worlds` or `worlds * agents` entries. */
EXPORT void drive_arrays(const void *params, int64_t stride, void *state, hr_rng *rng,
                         const void *actions, float *rewards, uint8_t *terminated,
                         uint8_t *truncated, void *obs) {
    drive_batch.params = params;
    drive_batch.params_stride = stride;
    drive_batch.state = state;
    drive_batch.rng = rng;
    drive_batch.actions = actions;
    drive_batch.rewards = rewards;
    drive_batch.terminated = terminated;
    drive_batch.truncated = truncated;
    drive_batch.obs = obs;
}

EXPORT void drive_step(int64_t lo, int64_t hi) { headrace_env()->step(&drive_batch, lo, hi); }

EXPORT void drive_observe(int64_t lo, int64_t hi) { headrace_env()->observe(&drive_batch, lo, hi); }

EXPORT void drive_reset(const int32_t *worlds, int64_t count) {
    headrace_env()->reset(&drive_batch, worlds, count);
}

EXPORT void drive_present(int64_t lo, int64_t hi, uint8_t *flags) {
    headrace_env()->present(&drive_batch, lo, hi, flags);
}

EXPORT void drive_mask(int64_t lo, int64_t hi, uint8_t *flags) {
    headrace_env()->mask(&drive_batch, lo, hi, flags);
}

EXPORT void drive_metrics(int64_t world, float *out) {
    headrace_env()->metrics(&drive_batch, world, out);
}

EXPORT void drive_draw(int64_t world, uint8_t *pixels, int32_t width, int32_t height) {
    hr_frame frame;
    frame.pixels = pixels;
    frame.width = width;
    frame.height = height;
    headrace_env()->draw(&drive_batch, world, &frame);
}

/* Line of the first failed HR_CHECK since the last call, 0 for none; its world in *world. */
EXPORT int32_t drive_failure(int64_t *world) {
    hr_failure *failure = headrace_env()->failure;
    if (failure == NULL || failure->message == NULL) return 0;
    failure->message = NULL;
    *world = failure->world;
    return failure->line;
}
