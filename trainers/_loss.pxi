def loss_gradient(Net net not None, log_std, outputs, value, actions, mask, logp, old_value,
                  advantage, ret, proximal=None, *, float clip, float value_clip, float value_coef,
                  float entropy_coef, float weight_max=1.0):
    """The PPO loss of n rows of anybody's outputs, and its gradient.

    log_std float32 [params of the net]; outputs float32 [n, outputs] and value [n], of the policy
    that learns; actions int32 [n, heads], floats by their bits; mask uint8 [n, mask_size] or None;
    logp, old_value, advantage and ret float32 [n]; proximal float32 [n] or None: see
    hr_loss_rows; weight_max: bound of the weights that follow from it. Returns the gradients of the mean loss by
    outputs, by value and by log_std, of the same shapes, and the sums of LearnStats over the rows,
    float64 [5].
    """
    cdef hr_net *shape = &net.net
    cdef int64_t heads = shape.heads, masks = shape.mask_size, n = len(value), lo, count, r, c
    cdef int64_t columns = shape.outputs - 1
    by_outputs, by_value = np.empty((n, columns), np.float32), np.empty(n, np.float32)
    by_log_std, sums = np.zeros(shape.params, np.float32), np.zeros(HR_SUMS)
    cdef const float *y = <const float *>data(
        _checked(outputs, np.float32, n * columns, "outputs"))
    cdef const float *v = <const float *>data(_checked(value, np.float32, n, "value"))
    cdef const int32_t *a = <const int32_t *>data(
        _checked(actions, np.int32, n * heads, "actions"))
    cdef const uint8_t *allowed = NULL
    if mask is not None and masks:
        allowed = <const uint8_t *>data(_checked(mask, np.uint8, n * masks, "mask"))
    cdef const float *given[5]
    cdef int columns_given = 4
    given[0] = <const float *>data(_checked(logp, np.float32, n, "logp"))
    given[1] = <const float *>data(_checked(old_value, np.float32, n, "old_value"))
    given[2] = <const float *>data(_checked(advantage, np.float32, n, "advantage"))
    given[3] = <const float *>data(_checked(ret, np.float32, n, "ret"))
    if proximal is not None:
        given[4] = <const float *>data(_checked(proximal, np.float32, n, "proximal"))
        columns_given = 5
    cdef const float *p = <const float *>data(
        _checked(log_std, np.float32, shape.params, "log_std"))
    cdef float *dy = <float *>data(by_outputs)
    cdef float *dv = <float *>data(by_value)
    cdef float *grad = <float *>data(by_log_std)
    cdef double *total = <double *>data(sums)
    work = aligned((2 * shape.outputs + heads * (1 + HR_HEAD_WORK) + 6 + masks, HR_TILE),
                   np.float32)
    cdef float *out = <float *>data(work)
    cdef float *dout = out + shape.outputs * HR_TILE
    cdef float *scratch = dout + shape.outputs * HR_TILE
    cdef float *own = scratch + heads * HR_HEAD_WORK * HR_TILE  # the columns, then valid
    cdef float *valid = own + 5 * HR_TILE
    cdef int32_t *chosen = <int32_t *>(own + 6 * HR_TILE)
    cdef uint8_t *m = <uint8_t *>(chosen + heads * HR_TILE)
    cdef hr_loss_options options
    options.clip, options.value_clip = clip, value_clip
    options.value_coef, options.entropy_coef = value_coef, entropy_coef
    options.advantage_mean, options.advantage_scale = 0.0, 1.0
    options.scale, options.weight_max = 1.0 / max(n, 1), weight_max
    cdef hr_loss_rows rows
    rows.actions, rows.mask = chosen, m if allowed != NULL else NULL
    rows.proximal = own + 4 * HR_TILE if proximal is not None else NULL
    rows.logp, rows.value = own, own + HR_TILE
    rows.advantage, rows.ret, rows.valid = own + 2 * HR_TILE, own + 3 * HR_TILE, valid
    memset(out, 0, work.nbytes)
    memset(m, 1, masks * HR_TILE)
    with nogil:
        lo = 0
        while lo < n:
            count = min(<int64_t>HR_TILE, n - lo)
            for r in range(HR_TILE):
                valid[r] = r < count
            for r in range(count):
                for c in range(columns):
                    out[c * HR_TILE + r] = y[(lo + r) * columns + c]
                out[columns * HR_TILE + r] = v[lo + r]
                for c in range(heads):
                    chosen[c * HR_TILE + r] = a[(lo + r) * heads + c]
                for c in range(columns_given):
                    own[c * HR_TILE + r] = given[c][lo + r]
                if allowed != NULL:
                    for c in range(masks):
                        m[c * HR_TILE + r] = allowed[(lo + r) * masks + c]
            net.kernels.loss(shape, p, &options, &rows, out, dout, scratch, grad, total)
            for r in range(count):
                for c in range(columns):
                    dy[(lo + r) * columns + c] = dout[c * HR_TILE + r]
                dv[lo + r] = dout[columns * HR_TILE + r]
            lo += HR_TILE
    return by_outputs, by_value, by_log_std, sums
