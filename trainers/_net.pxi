# Included by _native.pyx: descriptions of policies, their weights, weights under way.


cdef const float *_flags(array, name) except? NULL:
    """A column of 64 flags, or NULL for None."""
    return NULL if array is None else <const float *>data(_aligned_floats(array, (HR_TILE,), name))


cdef class Net:
    """An hr_net. See PolicySpec, which makes it.

    towers: [(output, [(in, out, activation, hidden, weight, bias), ..]), ..]; heads: tuples
    (kind, size, output, mask, draw, offset, log_std, low, high); inputs: tuples (dtype, offset,
    count, choices, feature, scale); state: units that remember, see hr_net; isa: instruction-set level,
    None: the best.
    """

    cdef hr_net net
    cdef const hr_kernels *kernels

    def __cinit__(self):
        memset(&self.net, 0, sizeof(hr_net))

    def __init__(self, *, features, outputs, hidden, width, towers, heads, inputs, mask_size,
                 action_size, obs_size, plain, params, state=0, isa=None):
        cdef hr_net *net = &self.net
        cdef hr_head *head
        cdef hr_input *input_
        cdef hr_layer *layer
        if net.head != NULL:
            raise RuntimeError("Net is initialised already")
        self.kernels = hr_kernels_get() if isa is None else hr_kernels_named(isa.encode())
        if self.kernels == NULL:
            raise ValueError(f"isa is {isa!r}: this build or CPU lacks it")
        net.features, net.outputs, net.hidden, net.width = features, outputs, hidden, width
        net.towers, net.heads, net.inputs = len(towers), len(heads), len(inputs)
        net.mask_size, net.action_size, net.obs_size = mask_size, action_size, obs_size
        net.plain, net.params, net.state = plain, params, state
        for t, (output, layers) in enumerate(towers):
            net.tower[t].output, net.tower[t].layers = output, len(layers)
            for k, values in enumerate(layers):
                layer = &net.tower[t].layer[k]
                (layer.in_, layer.out, layer.activation, layer.hidden, layer.weight,
                 layer.bias) = values
        head = <hr_head *>calloc(max(1, len(heads)), sizeof(hr_head))
        input_ = <hr_input *>calloc(max(1, len(inputs)), sizeof(hr_input))
        net.head, net.input = head, input_
        if head == NULL or input_ == NULL:
            raise MemoryError()
        for k, values in enumerate(heads):
            (head[k].kind, head[k].size, head[k].output, head[k].mask, head[k].draw,
             head[k].offset, head[k].log_std, head[k].low, head[k].high) = values
        for k, values in enumerate(inputs):
            (input_[k].dtype, input_[k].offset, input_[k].count, input_[k].choices,
             input_[k].feature, input_[k].scale) = values

    def __dealloc__(self):
        free(<void *>self.net.head)
        free(<void *>self.net.input)

    @property
    def isa(self):
        """The instruction-set level in use."""
        return self.kernels.name.decode()

    def encode(self, obs):
        """Features [tiles, features, 64] of Obs structs, a C-contiguous array of whole rows."""
        if not obs.flags.c_contiguous or obs.nbytes % self.net.obs_size:
            raise ArgumentError(
                f"obs must be a C-contiguous array of structs of {self.net.obs_size} bytes")
        rows = obs.nbytes // self.net.obs_size
        tiles = (rows + HR_TILE - 1) // HR_TILE
        x = aligned((tiles, self.net.features, HR_TILE), np.float32)
        cdef float *to = <float *>data(x)
        cdef const char *base = <const char *>data(obs)
        cdef int64_t k
        for k in range(tiles):
            self.kernels.encode(&self.net, base + k * HR_TILE * self.net.obs_size,
                                min(HR_TILE, rows - k * HR_TILE), NULL,
                                to + k * self.net.features * HR_TILE)
        return x

    def normalize(self, x, mean, scale, float clip):
        """Normalises tiles in place."""
        cdef int64_t k
        self.check_tiles(x, self.net.features, "x")
        _checked(mean, np.float32, self.net.features, "mean")
        _checked(scale, np.float32, self.net.features, "scale")
        cdef float *at = <float *>data(x)
        for k in range(len(x)):
            self.kernels.normalize(self.net.features, <const float *>data(mean),
                                   <const float *>data(scale), clip,
                                   at + k * self.net.features * HR_TILE)

    cdef int check_tiles(self, x, columns, name) except -1:
        """ArgumentError unless x is [tiles, columns, 64]."""
        _aligned_floats(x, (len(x), columns, HR_TILE), name)
        return 0

    @property
    def state_size(self):
        """Floats that are remembered of each row."""
        return self.net.state

    def forward(self, params, x, state=None):
        """Outputs [tiles, outputs, 64] for tiles x [tiles, features, 64].

        state: what is remembered, [tiles, state_size, 64]; goes on to the next step in place."""
        self.check_tiles(x, self.net.features, "x")
        tiles = len(x)
        if self.net.state:
            _aligned_floats(state, (tiles, self.net.state, HR_TILE), "state")
        out = aligned((tiles, self.net.outputs, HR_TILE), np.float32)
        hidden = aligned((max(1, self.net.hidden), HR_TILE), np.float32)
        cdef const float *p = <const float *>data(
            _checked(params, np.float32, self.net.params, "params"))
        cdef const float *at = <const float *>data(x)
        cdef float *to = <float *>data(out)
        cdef float *work = <float *>data(hidden)
        cdef float *kept = <float *>data(state) if self.net.state else NULL
        cdef hr_memory memory
        cdef int64_t k, n = tiles
        memory.began = memory.live = NULL
        with nogil:
            for k in range(n):
                memory.before = memory.after = kept + k * self.net.state * HR_TILE
                hr_forward(&self.net, self.kernels, p, at + k * self.net.features * HR_TILE,
                           &memory, work, to + k * self.net.outputs * HR_TILE)
        return out

    def mingru(self, before, began, live, given):
        """One step of the units that remember, see csrc/kernels.h: returns (given as it is left,
        after); before [size, 64], given [2 * size, 64], began and live [64] or None."""
        size = len(before)
        left, after = aligned((2 * size, HR_TILE), np.float32), aligned((size, HR_TILE), np.float32)
        left[:], after[:] = given, before
        self.kernels.mingru(size, <const float *>data(after), _flags(began, "began"),
                            _flags(live, "live"), <float *>data(left), <float *>data(after))
        return left, after

    def mingru_back(self, before, began, live, left, dafter, carry):
        """Its way back: (gradient by given, gradient by before)."""
        size = len(before)
        for name, array in (("before", before), ("dafter", dafter)):
            _aligned_floats(array, (size, HR_TILE), name)
        _aligned_floats(left, (2 * size, HR_TILE), "left")
        dgiven, dbefore = aligned((2 * size, HR_TILE), np.float32), aligned((size, HR_TILE), np.float32)
        dbefore[:] = carry
        self.kernels.mingru_back(
            size, <const float *>data(before), _flags(began, "began"), _flags(live, "live"),
            <const float *>data(left), <const float *>data(dafter), <float *>data(dbefore),
            <float *>data(dgiven))
        return dgiven, dbefore

    def sample(self, params, out, mask, key, step, greedy):
        """Actions int32 [tiles, heads, 64] (floats by their bits) and their log-probabilities
        [tiles, 64] from outputs; mask: uint8 [tiles, mask_size, 64] or None."""
        self.check_tiles(out, self.net.outputs, "out")
        _checked(params, np.float32, self.net.params, "params")
        tiles = len(out)
        if mask is not None:
            _checked(mask, np.uint8, tiles * self.net.mask_size * HR_TILE, "mask")
        actions = aligned((tiles, self.net.heads, HR_TILE), np.int32)
        logp = aligned((tiles, HR_TILE), np.float32)
        work = aligned((self.net.outputs, HR_TILE), np.float32)
        cdef hr_draw draw
        cdef int64_t k
        memset(&draw, 0, sizeof(draw))
        draw.key, draw.step, draw.greedy = key, step, greedy
        for k in range(tiles):
            draw.row = k * HR_TILE
            self.kernels.sample(
                &self.net, <const float *>data(params),
                <const float *>data(out) + k * self.net.outputs * HR_TILE,
                NULL if mask is None else
                <const uint8_t *>data(mask) + k * self.net.mask_size * HR_TILE,
                &draw, <int32_t *>data(actions) + k * self.net.heads * HR_TILE,
                <float *>data(logp) + k * HR_TILE, <float *>data(work),
            )
        return actions, logp

    def sample_rows(self, params, out, mask, key, rows, steps, greedy):
        """The same for rows of their own, each at its own step: actions int32 [k, heads] and
        log-probabilities [k] from outputs float32 [k, outputs], the value's column there or not,
        and mask uint8 [k, mask_size] or None; rows, steps: int64 [k]."""
        cdef int64_t n = len(rows), lo, count, r, c
        cdef int64_t heads = self.net.heads, masks = self.net.mask_size
        cdef int64_t outputs = max(<int64_t>out.shape[1], <int64_t>self.net.outputs - 1)
        actions, logp = np.empty((n, heads), np.int32), np.empty(n, np.float32)
        cdef const float *given = <const float *>data(
            _checked(out, np.float32, n * outputs, "out"))
        cdef const uint8_t *allowed = NULL
        if mask is not None and masks:
            allowed = <const uint8_t *>data(_checked(mask, np.uint8, n * masks, "mask"))
        cdef const int64_t *row = <const int64_t *>data(_checked(rows, np.int64, n, "rows"))
        cdef const int64_t *step = <const int64_t *>data(_checked(steps, np.int64, n, "steps"))
        cdef int32_t *to = <int32_t *>data(actions)
        cdef float *logp_to = <float *>data(logp)
        work = aligned((2 * outputs + heads + masks + 1, HR_TILE), np.float32)
        cdef float *x = <float *>data(work)
        cdef float *scratch = x + outputs * HR_TILE
        cdef float *own = scratch + outputs * HR_TILE
        cdef int32_t *chosen = <int32_t *>(own + HR_TILE)
        cdef uint8_t *m = <uint8_t *>(chosen + heads * HR_TILE)
        cdef const float *p = <const float *>data(
            _checked(params, np.float32, self.net.params, "params"))
        cdef uint32_t lanes[64]
        cdef uint64_t at[64]
        cdef hr_draw draw
        memset(&draw, 0, sizeof(draw))
        memset(lanes, 0, sizeof(lanes))
        memset(at, 0, sizeof(at))
        draw.key, draw.greedy, draw.rows, draw.steps = key, greedy, lanes, at
        memset(m, 1, masks * HR_TILE)
        with nogil:
            lo = 0
            while lo < n:
                count = min(<int64_t>HR_TILE, n - lo)
                for r in range(count):
                    lanes[r], at[r] = <uint32_t>row[lo + r], <uint64_t>step[lo + r]
                    for c in range(outputs):
                        x[c * HR_TILE + r] = given[(lo + r) * outputs + c]
                    if allowed != NULL:
                        for c in range(masks):
                            m[c * HR_TILE + r] = allowed[(lo + r) * masks + c]
                self.kernels.sample(&self.net, p, x, m if allowed != NULL else NULL, &draw,
                                    chosen, own, scratch)
                for r in range(count):
                    logp_to[lo + r] = own[r]
                    for c in range(heads):
                        to[(lo + r) * heads + c] = chosen[c * HR_TILE + r]
                lo += HR_TILE
        return actions, logp


cdef class Weights:
    """Parameters of one version with the normalisation that belongs to them; never changed.

    params float32 [num_params]; obs_mean, obs_scale float32 [features] (scale: 1 / standard
    deviation); reward_mean of discounted returns, reward_scale by which rewards are multiplied.
    """

    cdef hr_weights weights
    cdef readonly object params, obs_mean, obs_scale
    cdef readonly int64_t version
    cdef readonly double reward_mean, reward_scale

    def __init__(self, params, obs_mean, obs_scale, reward_mean=0.0, reward_scale=1.0, version=0):
        self.params, self.obs_mean, self.obs_scale = params, obs_mean, obs_scale
        for array in (params, obs_mean, obs_scale):
            if array.dtype != np.float32 or array.ndim != 1 \
                    or not cnp.PyArray_ISCARRAY_RO(array):
                raise ArgumentError("weights must be C-contiguous float32 arrays of one dimension")
            array.setflags(write=False)
        _same("length of obs_scale", len(obs_scale), len(obs_mean))
        self.reward_mean, self.reward_scale, self.version = reward_mean, reward_scale, version
        self.weights.params = <const float *>data(params)
        self.weights.obs_mean = <const float *>data(obs_mean)
        self.weights.obs_scale = <const float *>data(obs_scale)
        self.weights.reward_mean = reward_mean
        self.weights.reward_scale = reward_scale
        self.weights.version = version

    cdef int check_for(self, Net net) except -1:
        """ArgumentError unless these are weights of this network."""
        _same("length of the weights' params", len(self.params), net.net.params)
        _same("length of the weights' obs_mean", len(self.obs_mean), net.net.features)
        return 0


cdef class Slots:
    """Weights that actors pick up while a learner publishes newer ones (csrc/slots.h)."""

    cdef hr_slots slots
    cdef list held  # keeps alive what each slot points to
    cdef int64_t num_params, num_features

    def __cinit__(self):
        memset(&self.slots, 0, sizeof(hr_slots))

    def __init__(self, Weights first not None, readers):
        """readers: threads that may act at once."""
        if self.slots.slot != NULL:
            raise RuntimeError("Slots is initialised already")
        self.slots.count = readers + 2
        self.slots.slot = <hr_slot *>calloc(self.slots.count, sizeof(hr_slot))
        if self.slots.slot == NULL:
            raise MemoryError()
        self.held = [first] + [None] * (readers + 1)
        self.num_params, self.num_features = len(first.params), len(first.obs_mean)
        hr_slots_init(&self.slots, &first.weights)

    def publish(self, Weights weights not None):
        """Makes these the newest, of the same network. From one thread at a time."""
        cdef int claimed
        _same("length of the weights' params", len(weights.params), self.num_params)
        _same("length of the weights' obs_mean", len(weights.obs_mean), self.num_features)
        with nogil:
            claimed = hr_slots_claim(&self.slots)
        self.held[claimed] = weights
        hr_slots_publish(&self.slots, claimed, &weights.weights)

    def __dealloc__(self):
        free(self.slots.slot)
