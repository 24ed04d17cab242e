# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The native trainer: descriptions, rollouts, collection and learning over the C kernels.

Each public method checks what it is given once; below it runs C code (csrc/) that assumes it.
policy.py, collector.py and learner.py are what the rest of the package uses.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.math cimport isfinite
from libc.string cimport memcpy, memset

cimport numpy as cnp
import numpy as np

from ..engine.errors import ArgumentError

cnp.import_array()


include "_csrc.pxi"

TILE = HR_TILE
MAX_DEPTH = HR_MAX_DEPTH
MAX_CHUNKS = HR_MAX_CHUNKS
STAGES = (
    "env", "encode", "forward", "sample", "record", "advantage",
    "learn_forward", "loss", "backward", "optimizer", "collect_task", "learn_task",
)
TIMED = 17  # one step of a block in so many has its stages timed: cheap, in phase with nothing
CORRECTIONS = ("none", "clip", "vtrace", "decoupled")  # as hr_correction counts
FAULTS = ("", "observation", "reward", "loss", "gradient", "mask", "stopped")


cdef void *data(array) noexcept:
    return cnp.PyArray_DATA(<cnp.ndarray>array)


def aligned(shape, dtype):
    """A zeroed array on a 64-byte boundary, with room for the last vector."""
    dtype = np.dtype(dtype)
    cdef int64_t size = dtype.itemsize, part
    for part in shape if isinstance(shape, tuple) else (shape,):
        size *= part
    block = np.zeros(size + 128, np.uint8)
    cdef int64_t start = -<int64_t>data(block) % 64
    if start < 0:
        start += 64
    flat = block[start : start + size].view(dtype)
    return flat.reshape(shape) if isinstance(shape, tuple) else flat


def _checked(array, dtype, size, name):
    """array as it is if it is C-contiguous of this dtype and size, else an error."""
    if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.size == size
            and array.flags.c_contiguous):
        raise ArgumentError(f"{name} must be a C-contiguous {np.dtype(dtype)} array of {size}")
    return array


def _aligned_floats(array, shape, name):
    """The same of a float32 array of this shape on a 64-byte boundary."""
    if not (isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == shape
            and array.flags.c_contiguous and <size_t>data(array) % 64 == 0):
        raise ArgumentError(
            f"{name} must be a C-contiguous float32 array {shape} on a 64-byte boundary")
    return array


cdef int check_built(uint64_t size, uint64_t expected) except -1:
    """ImportError where the engine was built from other sources than this module."""
    if size != expected:
        raise ImportError("headrace.engine and headrace.trainers come from different builds: "
                          "install headrace again")
    return 0


def _same(name, given, expected):
    """ArgumentError unless a size is what it has to be."""
    if given != expected:
        raise ArgumentError(f"{name} is {given}: expected {expected}")


cdef void run_serial(hr_pool *pool, hr_task_fn fn, void *arg, int64_t tasks) noexcept nogil:
    cdef int64_t task
    for task in range(tasks):
        fn(arg, task, 0)


cdef void submit_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    run_serial(pool, job.fn, job.arg, job.tasks)


cdef void wait_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    pass


cdef int done_serial(hr_pool *pool, hr_job *job) noexcept nogil:
    return 1


cdef int one_thread(const hr_pool *pool) noexcept nogil:
    return 1


cdef hr_pool_api SERIAL
SERIAL.run, SERIAL.submit, SERIAL.wait = run_serial, submit_serial, wait_serial
SERIAL.done = done_serial
SERIAL.threads = one_thread


cdef class Workers:
    """The pool that runs the tasks; without one, the calling thread does."""

    cdef object capsules  # keep the pool alive
    cdef const hr_pool_api *api
    cdef hr_pool *pool
    cdef readonly int threads

    def __init__(self, pool_api=None, pool=None):
        """pool_api, pool: capsules "headrace.hr_pool_api" and "headrace.hr_pool", or None."""
        self.capsules = (pool_api, pool)
        self.api, self.pool = &SERIAL, NULL
        if pool is not None:
            self.api = <const hr_pool_api *>PyCapsule_GetPointer(pool_api, "headrace.hr_pool_api")
            self.pool = <hr_pool *>PyCapsule_GetPointer(pool, "headrace.hr_pool")
            check_built(self.api.size, sizeof(hr_pool_api))
        self.threads = self.api.threads(self.pool)


cdef class Net:
    """An hr_net. See PolicySpec, which makes it.

    towers: [(output, [(in, out, activation, hidden, weight, bias), ..]), ..]; heads: tuples
    (kind, size, output, mask, draw, offset, log_std, low, high); inputs: tuples (dtype, offset,
    count, choices, feature); isa: instruction-set level, None: the best.
    """

    cdef hr_net net
    cdef const hr_kernels *kernels

    def __cinit__(self):
        memset(&self.net, 0, sizeof(hr_net))

    def __init__(self, *, features, outputs, hidden, width, towers, heads, inputs, mask_size,
                 action_size, obs_size, plain, params, isa=None):
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
        net.plain, net.params = plain, params
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
             input_[k].feature) = values

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

    def forward(self, params, x):
        """Outputs [tiles, outputs, 64] for tiles x [tiles, features, 64]."""
        self.check_tiles(x, self.net.features, "x")
        tiles = len(x)
        out = aligned((tiles, self.net.outputs, HR_TILE), np.float32)
        hidden = aligned((max(1, self.net.hidden), HR_TILE), np.float32)
        cdef const float *p = <const float *>data(
            _checked(params, np.float32, self.net.params, "params"))
        cdef const float *at = <const float *>data(x)
        cdef float *to = <float *>data(out)
        cdef float *work = <float *>data(hidden)
        cdef int64_t k, n = tiles
        with nogil:
            for k in range(n):
                hr_forward(&self.net, self.kernels, p, at + k * self.net.features * HR_TILE, work,
                           to + k * self.net.outputs * HR_TILE)
        return out

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
        log-probabilities [k] from outputs float32 [k, outputs] and mask uint8 [k, mask_size] or
        None; rows, steps: int64 [k]."""
        cdef int64_t n = len(rows), lo, count, r, c
        cdef int64_t outputs = self.net.outputs, heads = self.net.heads, masks = self.net.mask_size
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


cdef class Rollout:
    """T steps of every row in tiles of 64 rows (csrc/rollout.h gives their order).

    Attributes: obs [tiles, features, 64], actions int32 [tiles, heads, 64] (floats by their
    bits, as sampled), mask uint8 [tiles, mask_size, 64] or None, and float32 [tiles, 64]: logp,
    value, reward, done, bootstrap, valid, advantage, ret (the value target); tile_rows int32
    [tiles]; last float32 [blocks, agents * 64]: V(observation) after the last step;
    block_versions int64 [blocks]: of the weights that acted; version: the oldest of them;
    steps: valid rows.
    """

    cdef hr_rollout ro
    cdef readonly Net net
    cdef readonly object obs, actions, mask, logp, value, reward, done, bootstrap, valid
    cdef readonly object advantage, ret, last, tile_rows, obs_sums, reward_sums, moments
    cdef readonly object block_versions, obs_centres, reward_centres
    cdef object episodes, block_episodes, logs
    cdef public int64_t version

    def __init__(self, Net net not None, *, horizon, worlds, agents, normalize_obs=False,
                 normalize_reward=False):
        cdef hr_rollout *ro = &self.ro
        blocks = (worlds + HR_TILE - 1) // HR_TILE
        tiles = blocks * horizon * agents
        self.net = net
        ro.horizon, ro.blocks, ro.agents, ro.tiles = horizon, blocks, agents, tiles
        ro.features, ro.heads, ro.mask_size = net.net.features, net.net.heads, net.net.mask_size
        self.obs = aligned((tiles, ro.features, HR_TILE), np.float32)
        self.actions = aligned((tiles, ro.heads, HR_TILE), np.int32)
        self.mask = aligned((tiles, ro.mask_size, HR_TILE), np.uint8) if ro.mask_size else None
        rows = (tiles, HR_TILE)
        self.logp, self.value = aligned(rows, np.float32), aligned(rows, np.float32)
        self.reward, self.done = aligned(rows, np.float32), aligned(rows, np.float32)
        self.bootstrap, self.valid = aligned(rows, np.float32), aligned(rows, np.float32)
        self.advantage, self.ret = aligned(rows, np.float32), aligned(rows, np.float32)
        self.tile_rows = aligned(tiles, np.int32)
        self.last = aligned((blocks, agents * HR_TILE), np.float32)
        self.moments = aligned((blocks, 7), np.float64)
        self.block_versions = np.zeros(blocks, np.int64)
        self.obs_sums = aligned((blocks, 2, ro.features), np.float64) if normalize_obs else None
        self.reward_sums = aligned((blocks, 3), np.float64) if normalize_reward else None
        self.obs_centres = aligned((blocks, ro.features), np.float64) if normalize_obs else None
        self.reward_centres = aligned(blocks, np.float64) if normalize_reward else None
        self.episodes = aligned((tiles * HR_TILE, 4), np.int32)
        self.block_episodes = aligned((tiles * HR_TILE, 4), np.int32)
        self.logs = aligned(blocks * sizeof(hr_block_log), np.uint8)
        ro.obs, ro.actions = <float *>data(self.obs), <int32_t *>data(self.actions)
        ro.mask = NULL if self.mask is None else <uint8_t *>data(self.mask)
        ro.logp, ro.value = <float *>data(self.logp), <float *>data(self.value)
        ro.reward, ro.done = <float *>data(self.reward), <float *>data(self.done)
        ro.bootstrap, ro.valid = <float *>data(self.bootstrap), <float *>data(self.valid)
        ro.advantage, ro.ret = <float *>data(self.advantage), <float *>data(self.ret)
        ro.tile_rows = <int32_t *>data(self.tile_rows)
        ro.moments = <hr_moments *>data(self.moments)
        ro.obs_sums = NULL if self.obs_sums is None else <double *>data(self.obs_sums)
        ro.reward_sums = NULL if self.reward_sums is None else <double *>data(self.reward_sums)
        ro.last, ro.versions = <float *>data(self.last), <int64_t *>data(self.block_versions)
        if normalize_obs:
            ro.obs_centres = <double *>data(self.obs_centres)
        if normalize_reward:
            ro.reward_centres = <double *>data(self.reward_centres)
        ro.episodes = <hr_episode *>data(self.episodes)
        ro.block_episodes = <hr_episode *>data(self.block_episodes)
        ro.logs = <hr_block_log *>data(self.logs)

    @property
    def horizon(self):
        """Steps of every row."""
        return self.ro.horizon

    @property
    def steps(self):
        """Environment steps taken: valid rows."""
        return self.ro.valid_rows

    @property
    def episode_returns(self):
        """float32 [episodes]: sums of rewards of the episodes that finished, by (step, row)."""
        return self.episodes[: self.ro.episode_count, 2].view(np.float32)

    @property
    def episode_lengths(self):
        """int32 [episodes], steps; likewise ordered."""
        return self.episodes[: self.ro.episode_count, 3]

    @property
    def episode_steps(self):
        """int32 [episodes]: the step of the rollout, from 0, at which each finished."""
        return self.episodes[: self.ro.episode_count, 0]

    @property
    def episode_rows(self):
        """int32 [episodes]: the row in which each was played."""
        return self.episodes[: self.ro.episode_count, 1]

    def lag(self, int64_t version):
        """(mean, greatest) number of updates between the weights that acted and `version`,
        over valid rows."""
        rows = self.tile_rows.reshape(self.ro.blocks, -1).sum(1)
        lags = version - self.block_versions
        if not rows.any():
            return 0.0, 0
        return float((rows * lags).sum() / rows.sum()), int(lags[rows > 0].max())

    def set_weights(self, weights):
        """Notes the weights, native or others, that acted and normalised in all blocks."""
        self.block_versions[:] = self.version = weights.version
        if self.obs_centres is not None and self.ro.features:
            self.obs_centres[:] = weights.obs_mean
        if self.reward_centres is not None:
            self.reward_centres[:] = np.float32(weights.reward_mean)

    def scale_rewards(self, discounted, float gamma, float mean, float scale, float clip):
        """Scales rewards by the spread of discounted returns and clips them; fills reward_sums.
        discounted: float32 [rows], so far in each row's episode; goes on with the rollout."""
        cdef int64_t rows = len(discounted), width = self.ro.agents * HR_TILE, b, t, k, row, at
        cdef float *total = <float *>data(_checked(discounted, np.float32, rows, "discounted"))
        cdef double *sums
        cdef double d
        cdef float y
        if self.reward_sums is None or rows > self.ro.blocks * width:
            raise ArgumentError("rollout was made for other rows, or not to normalise rewards")
        self.reward_sums[:] = 0.0
        for b in range(self.ro.blocks):
            sums = self.ro.reward_sums + 3 * b
            for t in range(self.ro.horizon):
                for k in range(min(width, rows - b * width)):
                    row, at = b * width + k, (b * self.ro.horizon + t) * width + k
                    if self.ro.valid[at] != 0 or self.ro.reward[at] != 0:
                        if self.ro.valid[at] != 0:  # else it counts as if it came before
                            total[row] = total[row] * gamma
                        total[row] = total[row] + self.ro.reward[at]
                        d = <double>(total[row] - mean)
                        sums[0] += 1.0
                        sums[1] += d
                        sums[2] += d * d
                        y = self.ro.reward[at] * scale
                        self.ro.reward[at] = clip if y > clip else -clip if y < -clip else y
                    if self.ro.done[at] != 0:
                        total[row] = 0.0

    def set_episodes(self, episodes):
        """The finished episodes of a rollout that was saved, int32 [k, 4]: step, row, return (by
        its bits), length."""
        self.ro.episode_count = len(episodes)
        self.episodes[: len(episodes)] = episodes

    def sort_episodes(self):
        """Puts the finished episodes in order of step and row."""
        there = self.episodes[: self.ro.episode_count]
        there[:] = there[np.lexsort((there[:, 1], there[:, 0]))]

    def clear(self):
        """Nothing is in it: no valid row, no episode."""
        for array in (self.valid, self.reward, self.done, self.bootstrap):
            array[:] = 0.0
        self.ro.episode_count = 0

    def encode(self, raw, Weights weights not None, float clip):
        """Fills obs from Obs structs, uint8 [tiles * 64, size] in the order of the tiles;
        clip > 0: normalised and clipped, with the sums that the learner needs of valid rows."""
        weights.check_for(self.net)
        cdef const hr_kernels *kernels = self.net.kernels
        cdef const hr_net *net = &self.net.net
        cdef const char *base = <const char *>data(
            _checked(raw, np.uint8, self.ro.tiles * HR_TILE * net.obs_size, "raw"))
        cdef float *x = self.ro.obs
        cdef double *sums
        cdef int64_t k, of_block = self.ro.horizon * self.ro.agents
        if self.obs_sums is not None:
            self.obs_sums[:] = 0.0
        with nogil:
            for k in range(self.ro.tiles):
                kernels.encode(net, base + k * HR_TILE * net.obs_size, HR_TILE, NULL, x)
                if clip > 0:
                    if self.ro.obs_sums != NULL:
                        sums = self.ro.obs_sums + k // of_block * 2 * net.features
                        kernels.observe(net.features, x, weights.weights.obs_mean,
                                        self.ro.valid + k * HR_TILE, sums, sums + net.features)
                    kernels.normalize(net.features, weights.weights.obs_mean,
                                      weights.weights.obs_scale, clip, x)
                x += net.features * HR_TILE

    def finish(self, last, float gamma, float gae_lambda):
        """Advantages and value targets once all steps are there; counts valid rows.

        last: float32 [blocks, agents * 64], V(observation) after each row's last step."""
        cdef hr_gae_options options
        cdef int64_t b, width = self.ro.agents * HR_TILE, size = self.ro.horizon * width
        cdef hr_gae_rows rows
        self.last.reshape(-1)[:] = _checked(last, np.float32, self.ro.blocks * width, "last")
        options.gamma, options.lambda_ = gamma, gae_lambda
        rows.logp = rows.current = NULL
        memset(self.ro.moments, 0, self.ro.blocks * sizeof(hr_moments))
        for b in range(self.ro.blocks):
            rows.reward, rows.value = self.ro.reward + b * size, self.ro.value + b * size
            rows.done, rows.bootstrap = self.ro.done + b * size, self.ro.bootstrap + b * size
            rows.valid, rows.last = self.ro.valid + b * size, self.ro.last + b * width
            self.net.kernels.gae(self.ro.horizon, width, &rows, &options,
                                 self.ro.advantage + b * size, self.ro.ret + b * size,
                                 &self.ro.moments[b])
        self.tile_rows[:] = (self.valid > 0).sum(1)
        self.ro.valid_rows = int(self.tile_rows.sum())

    def count_rows(self):
        """Counts valid rows anew, and the sums of advantages and returns, after the arrays
        were written from Python."""
        self.tile_rows[:] = (self.valid > 0).sum(1)
        self.ro.valid_rows = int(self.tile_rows.sum())
        live = self.valid > 0
        advantage, ret = (a[live].astype(np.float64) for a in (self.advantage, self.ret))
        self.moments[:] = 0.0
        self.moments[0] = [
            self.ro.valid_rows, advantage.sum(), (advantage**2).sum(), ret.sum(), (ret**2).sum(),
            advantage.sum(), (advantage**2).sum(),
        ]


cdef bint allows_nothing(const hr_net *net, const uint8_t *mask) noexcept nogil:
    """Whether some head has no choice under a row's mask."""
    cdef int32_t k, j
    cdef uint8_t any_
    for k in range(net.heads):
        if net.head[k].mask < 0:
            continue
        any_ = 0
        for j in range(net.head[k].size):
            any_ |= mask[net.head[k].mask + j]
        if not any_:
            return True
    return False


cdef class RowBook:
    """The rows of a stepped collector: where each stands in the open rollout, and what is
    written there when it is sent and received.

    Attributes, [rows] each: cursor int64, its steps in the rollout; taken int64, its actions
    since the run began; flying, live bool: whether it is under way, and whether its agent was
    there; returns float32 and lengths int32 of the episodes under way.
    """

    cdef readonly object cursor, taken, flying, live, returns, lengths
    cdef int64_t rows, width, horizon
    cdef int64_t *at_cursor
    cdef int64_t *at_taken
    cdef uint8_t *is_flying
    cdef uint8_t *is_live
    cdef float *of_return
    cdef int32_t *of_length

    def __init__(self, int64_t rows, int64_t agents, int64_t horizon):
        self.rows, self.width, self.horizon = rows, agents * HR_TILE, horizon
        self.cursor, self.taken = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        self.flying, self.live = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.returns, self.lengths = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
        self.at_cursor, self.at_taken = <int64_t *>data(self.cursor), <int64_t *>data(self.taken)
        self.is_flying, self.is_live = <uint8_t *>data(self.flying), <uint8_t *>data(self.live)
        self.of_return, self.of_length = <float *>data(self.returns), <int32_t *>data(self.lengths)

    cdef int check_rollout(self, Rollout ro) except -1:
        """ArgumentError unless the rollout has these rows and this horizon."""
        _same("horizon of the rollout", ro.ro.horizon, self.horizon)
        _same("rows of one of the rollout's blocks", ro.ro.agents * HR_TILE, self.width)
        if self.rows > ro.ro.blocks * self.width:
            raise ArgumentError(f"rollout has no place for {self.rows} rows")
        return 0

    cdef inline int64_t place(self, int64_t row) noexcept nogil:
        """Where the row's next step lies in arrays of all places of a rollout."""
        return (row // self.width * self.horizon + self.at_cursor[row]) * self.width \
            + row % self.width

    def send(self, Rollout ro not None, rows, raw, actions, mask, logp, value, live,
             int64_t version):
        """Writes what a policy saw and did for rows int64 [k]: raw uint8 [k, size], actions
        int32 [k, heads], mask uint8 [k, mask_size] or None, logp and value float32 [k], live bool
        [k] or None for all. The rollout is a SteppedRollout. Returns the first row there whose
        mask allows nothing, -1 for none."""
        cdef int64_t n = len(rows), i, c, at, tile, lane, row, shut = -1
        self.check_rollout(ro)
        cdef int64_t heads = ro.ro.heads, masks = ro.ro.mask_size, size = raw.shape[1]
        cdef const int64_t *numbers = <const int64_t *>data(_checked(rows, np.int64, n, "rows"))
        cdef const uint8_t *seen = <const uint8_t *>data(_checked(raw, np.uint8, n * size, "raw"))
        cdef const int32_t *chosen = <const int32_t *>data(
            _checked(actions, np.int32, n * heads, "actions"))
        cdef const uint8_t *allowed = NULL
        cdef const uint8_t *there = NULL
        if ro.mask is not None:
            allowed = <const uint8_t *>data(_checked(mask, np.uint8, n * masks, "mask"))
        if live is not None:
            there = <const uint8_t *>data(_checked(live, np.bool_, n, "live"))
        cdef const float *lp = <const float *>data(_checked(logp, np.float32, n, "logp"))
        cdef const float *v = <const float *>data(_checked(value, np.float32, n, "value"))
        cdef uint8_t *raw_to = <uint8_t *>data(
            _checked(ro.raw, np.uint8, ro.ro.tiles * HR_TILE * size, "rollout.raw"))
        cdef int64_t *versions = <int64_t *>data(
            _checked(ro.versions, np.int64, ro.ro.tiles * HR_TILE, "rollout.versions"))
        for i in range(n):
            row = numbers[i]
            if row < 0 or row >= self.rows or self.at_cursor[row] >= self.horizon:
                raise ValueError(f"row {row} has no place left in the rollout")
            at = self.place(row)
            tile, lane = at // HR_TILE, at % HR_TILE
            memcpy(raw_to + at * size, seen + i * size, size)
            for c in range(heads):
                ro.ro.actions[(tile * heads + c) * HR_TILE + lane] = chosen[i * heads + c]
            if allowed != NULL:
                for c in range(masks):
                    ro.ro.mask[(tile * masks + c) * HR_TILE + lane] = allowed[i * masks + c]
            ro.ro.logp[at] = lp[i]
            ro.ro.value[at] = v[i]
            versions[at] = version
            self.is_live[row] = 1 if there == NULL else there[i]
            self.is_flying[row] = 1
            self.at_taken[row] += 1
            if allowed != NULL and self.is_live[row] and shut < 0 \
                    and allows_nothing(&ro.net.net, allowed + i * masks):
                shut = row
        return shut

    def receive(self, Rollout ro, rows, reward, terminated, truncated):
        """Writes what became of the actions of rows int64 [k], and counts episodes; None for a
        rollout: these steps are dropped. reward float32, terminated and truncated bool [k].

        Rewards and ends count for agents that were away, too. Returns (steps written, index of a
        reward that is not finite or -1, indices of episodes that are over, places of those that
        were cut, -1 for the others)."""
        cdef int64_t n = len(rows), i, at, row, steps = 0, bad = -1, ends = 0
        cdef const int64_t *numbers = <const int64_t *>data(_checked(rows, np.int64, n, "rows"))
        cdef const float *gained = <const float *>data(
            _checked(reward, np.float32, n, "reward"))
        cdef const uint8_t *term = <const uint8_t *>data(
            _checked(terminated, np.bool_, n, "terminated"))
        cdef const uint8_t *trunc = <const uint8_t *>data(
            _checked(truncated, np.bool_, n, "truncated"))
        cdef float got
        cdef hr_episode *episode
        over, cut = np.empty(n, np.int64), np.empty(n, np.int64)
        cdef int64_t *over_at = <int64_t *>data(over)
        cdef int64_t *cut_at = <int64_t *>data(cut)
        if ro is not None:
            self.check_rollout(ro)
        for i in range(n):
            row = numbers[i]
            if row < 0 or row >= self.rows or not self.is_flying[row]:
                raise ArgumentError(f"row {row} is not under way")
            at = self.place(row)
            self.is_flying[row] = 0
            got = gained[i]
            if not isfinite(got) and bad < 0:
                bad = i
            steps += self.is_live[row]
            self.of_return[row] += got
            self.of_length[row] += self.is_live[row]
            if ro is not None:
                ro.ro.reward[at], ro.ro.valid[at] = got, <float>self.is_live[row]
            if term[i] or trunc[i]:
                if ro is not None:
                    ro.ro.done[at] = 1.0
                    episode = &ro.ro.episodes[ro.ro.episode_count]
                    episode.step, episode.row = <int32_t>self.at_cursor[row], <int32_t>row
                    episode.ret, episode.length = self.of_return[row], self.of_length[row]
                    ro.ro.episode_count += 1
                over_at[ends], cut_at[ends] = i, -1 if term[i] else at
                ends += 1
                self.of_return[row], self.of_length[row] = 0.0, 0
            self.at_cursor[row] += 1
        return steps, bad, over[:ends], cut[:ends]


cdef tuple fault_tuple(hr_fault fault):
    """None, or (kind, step or minibatch, row or parameter, feature, value)."""
    if fault.kind == 0:
        return None
    return FAULTS[fault.kind], fault.step, fault.row, fault.feature, fault.value


cdef class StopFlag:
    """Makes whoever collects or learns with it leave off within a step of a block or a minibatch,
    once it is both armed and requested; from any thread."""

    cdef readonly int32_t raised  # both
    cdef readonly bint armed, requested

    def request(self):
        """Somebody wants to stop."""
        self.requested = True
        self.raised = self.armed

    def arm(self, bint armed=True):
        """Whether what is under way may be left off, from now on."""
        self.armed = armed
        self.raised = armed and self.requested


cdef class Collector:
    """An hr_collector over the worlds in a capsule "headrace.hr_vec"."""

    cdef hr_collector collector
    cdef Net net
    cdef Workers workers
    cdef object vec, discounted, scratch
    cdef readonly object seconds
    cdef StopFlag stop
    cdef readonly list shares
    cdef readonly int horizon, blocks

    def __init__(self, Net net not None, vec, Workers workers not None, *, horizon, float gamma,
                 float gae_lambda, key, float obs_clip, float reward_clip, profile=False,
                 StopFlag stop=None):
        cdef hr_collector *c = &self.collector
        if c.vec != NULL:
            raise RuntimeError("Collector is initialised already")
        if horizon < 1:
            raise ArgumentError(f"horizon is {horizon}: expected at least 1")
        self.net, self.vec, self.workers, self.horizon = net, vec, workers, horizon
        c.vec = <hr_vec *>PyCapsule_GetPointer(vec, "headrace.hr_vec")
        check_built(c.vec.size, sizeof(hr_vec))
        if c.vec.autoreset != HR_SAME_STEP:
            raise ArgumentError("autoreset_mode must be 'SameStep' for collection")
        for name, own, theirs in (
            ("obs_size", net.net.obs_size, c.vec.env.obs_size),
            ("action_size", net.net.action_size, c.vec.env.action_size),
            ("mask_size", net.net.mask_size, c.vec.env.mask_size),
        ):
            if own != theirs:
                raise ArgumentError(
                    f"policy was made for another environment: its {name} is {own}, the "
                    f"environment's {theirs}")
        c.net, c.kernels = &net.net, net.kernels
        if stop is not None:
            self.stop = stop
            c.stop = &stop.raised
        c.gae.gamma, c.gae.lambda_ = gamma, gae_lambda
        c.obs_clip, c.reward_clip, c.key = obs_clip, reward_clip, key
        self.blocks = (c.vec.worlds + HR_TILE - 1) // HR_TILE
        c.scratch_size = hr_collect_scratch(&net.net)
        self.scratch = aligned(c.scratch_size * workers.threads, np.uint8)
        c.scratch = <char *>data(self.scratch)
        if reward_clip > 0:
            self.discounted = aligned(c.vec.rows, np.float32)
            c.discounted = <float *>data(self.discounted)
        self.seconds = aligned((workers.threads, HR_TIMES), np.float64)
        c.seconds, c.timed = <double *>data(self.seconds), 1 if profile else TIMED
        self.shares = [Share(self, 0, self.blocks)]

    def new_rollout(self):
        """A rollout with the shapes that `collect` fills."""
        cdef hr_vec *vec = self.collector.vec
        return Rollout(
            self.net, horizon=self.horizon, worlds=vec.worlds, agents=vec.env.agents,
            normalize_obs=self.collector.obs_clip > 0,
            normalize_reward=self.collector.reward_clip > 0,
        )

    cdef int check_rollout(self, Rollout rollout) except -1:
        """ArgumentError unless `new_rollout` of a collector like this one made it."""
        cdef hr_rollout *ro = &rollout.ro
        cdef const hr_net *net = &self.net.net
        for name, own, expected in (
            ("horizon", ro.horizon, self.horizon), ("blocks", ro.blocks, self.blocks),
            ("agents", ro.agents, self.collector.vec.env.agents),
            ("features", ro.features, net.features), ("heads", ro.heads, net.heads),
            ("mask_size", ro.mask_size, net.mask_size),
            ("normalize_obs", ro.obs_sums != NULL, self.collector.obs_clip > 0),
            ("normalize_reward", ro.reward_sums != NULL, self.collector.reward_clip > 0),
        ):
            if own != expected:
                raise ArgumentError(
                    f"rollout was made for another collector: its {name} is {own}, expected "
                    f"{expected}")
        return 0

    def close(self):
        """Waits until nothing is under way."""
        cdef Share share
        for share in self.shares or ():
            share.wait()

    def collect(self, Weights weights not None, Rollout rollout not None):
        """Fills a rollout that `new_rollout` made; returns None or a fault."""
        cdef Share share
        for share in self.shares:
            share.run(rollout, weights)
        return self.finish(rollout)

    def finish(self, Rollout rollout not None):
        """What remains once all shares have filled their parts; returns None or a fault."""
        cdef hr_fault fault
        with nogil:
            fault = hr_collect_finish(&rollout.ro)
        rollout.version = rollout.block_versions.min()
        return fault_tuple(fault)

    def split(self, int count):
        """Cuts the blocks into `count` shares, which may be started apart; none may be under
        way."""
        if not 1 <= count <= self.blocks:
            raise ArgumentError(f"count is {count}: expected 1 to {self.blocks} shares")
        if any(share.busy for share in self.shares):
            raise RuntimeError("split() while a share is busy")
        bounds = [k * self.blocks // count for k in range(count + 1)]
        step = self.step
        self.shares = [Share(self, lo, hi - lo) for lo, hi in zip(bounds, bounds[1:])]
        self.set_step(step)

    cdef int set_step(self, step) except -1:
        cdef Share share
        for share in self.shares:
            share.share.step = step
        return 0

    @property
    def step(self):
        """Steps of every row since the run began, once all shares are idle."""
        cdef Share share = self.shares[0]
        return share.share.step

    def profile(self):
        """Seconds per stage, summed over threads; without profile=True those within a block are
        of one step in TIMED."""
        return dict(zip(STAGES, self.seconds.sum(0).tolist()))

    def state_dict(self):
        """Everything that `load_state_dict` needs."""
        state = {"step": int(self.step)}
        if self.discounted is not None:
            state["discounted"] = self.discounted.copy()
        return state

    def load_state_dict(self, state):
        """Continues where `state_dict` was taken."""
        self.set_step(state["step"])
        if self.discounted is not None:
            _same("length of discounted", len(state["discounted"]), len(self.discounted))
            self.discounted[:] = state["discounted"]


cdef class Share:
    """An actor: some blocks of a collector, stepped by jobs of their own (an hr_share)."""

    cdef hr_share share
    cdef Collector collector
    cdef object in_use  # the rollout, weights and slots of the job under way
    cdef readonly bint busy

    def __init__(self, Collector collector not None, int first, int blocks):
        if self.busy:
            raise RuntimeError("Share is busy")
        if first < 0 or blocks < 0 or first + blocks > collector.blocks:
            raise ArgumentError(f"blocks {first} to {first + blocks} of {collector.blocks}")
        self.collector = collector
        self.share.collector = &collector.collector
        self.share.first, self.share.blocks = first, blocks

    cdef int prepare(self, Rollout rollout, Weights weights, Slots slots) except -1:
        if self.busy:
            raise RuntimeError("a share was started twice")
        self.collector.check_rollout(rollout)
        if weights is not None:
            weights.check_for(self.collector.net)
        else:
            _same("length of the slots' params", slots.num_params,
                  self.collector.net.net.params)
            _same("length of the slots' obs_mean", slots.num_features,
                  self.collector.net.net.features)
        self.in_use = rollout, weights, slots
        self.share.rollout = &rollout.ro
        self.share.weights = NULL if weights is None else &weights.weights
        self.share.slots = NULL if slots is None else &slots.slots
        return 0

    cdef int run(self, Rollout rollout, Weights weights) except -1:
        self.prepare(rollout, weights, None)
        with nogil:
            hr_share_run(&self.share, self.collector.workers.api, self.collector.workers.pool)
        return 0

    def start(self, Rollout rollout not None, Weights weights=None, Slots slots=None):
        """Starts to fill this share's part of the rollout: by `weights` throughout, or by the
        newest in `slots` when each block begins."""
        if (weights is None) == (slots is None):
            raise ValueError("start() takes either weights or slots")
        self.prepare(rollout, weights, slots)
        self.busy = True
        with nogil:
            hr_share_start(&self.share, self.collector.workers.api, self.collector.workers.pool)

    def done(self):
        """Whether nothing is left to wait for; never blocks."""
        return not self.busy or bool(
            self.collector.workers.api.done(self.collector.workers.pool, &self.share.job))

    def wait(self):
        """Helps until the part is filled."""
        if self.busy:
            with nogil:
                hr_share_wait(&self.share, self.collector.workers.api,
                              self.collector.workers.pool)
            self.busy, self.in_use = False, None

    def __del__(self):  # comes before the garbage collector clears anything that the job uses
        self.wait()


cdef class Learner:
    """An hr_learner: parameters, Adam's moments and the scratch of the gradient."""

    cdef hr_learner learner
    cdef hr_learn_options options
    cdef readonly Net net
    cdef Workers workers
    cdef readonly object params, m, v, grads, sums
    cdef object order, current, weights, scratch
    cdef readonly object seconds
    cdef StopFlag stop

    def __init__(self, Net net not None, Workers workers not None, params, *, key, epochs,
                 minibatches, normalize_advantage, clip, value_clip, value_coef, max_grad_norm,
                 betas, eps, correction="clip", weight_max=1.0, gamma=1.0, gae_lambda=1.0,
                 rho_max=1.0, c_max=1.0, profile=False, StopFlag stop=None):
        cdef hr_learner *l = &self.learner
        cdef hr_learn_options *o = &self.options
        if stop is not None:
            self.stop = stop
            l.stop = &stop.raised
        self.net, self.workers = net, workers
        n = net.net.params
        self.params, self.m, self.v = (aligned(n, np.float32) for _ in range(3))
        self.params[:] = _checked(params, np.float32, n, "params")
        self.grads = aligned((HR_MAX_CHUNKS, n), np.float32)
        self.sums = aligned((HR_MAX_CHUNKS, HR_SUMS), np.float64)
        l.scratch_size = hr_learn_scratch(&net.net)
        self.scratch = aligned(l.scratch_size * workers.threads, np.uint8)
        l.net, l.kernels, l.key = &net.net, net.kernels, key
        l.params, l.m, l.v = <float *>data(self.params), <float *>data(self.m), <float *>data(self.v)
        l.grads, l.sums = <float *>data(self.grads), <double *>data(self.sums)
        l.scratch = <char *>data(self.scratch)
        self.seconds = aligned((workers.threads, HR_TIMES), np.float64)
        l.seconds, l.detailed = <double *>data(self.seconds), profile
        o.epochs, o.minibatches, o.normalize_advantage = epochs, minibatches, normalize_advantage
        o.clip, o.value_clip, o.value_coef = clip, value_clip, value_coef
        o.max_grad_norm, o.beta1, o.beta2, o.eps = max_grad_norm, betas[0], betas[1], eps
        o.correction, o.weight_max = CORRECTIONS.index(correction), weight_max
        o.gae.gamma, o.gae.lambda_ = gamma, gae_lambda
        o.gae.rho_max, o.gae.c_max = rho_max, c_max

    cdef int fit(self, Rollout rollout) except -1:
        """Room for the order of the rollout's tiles."""
        if rollout.net.net.features != self.net.net.features \
                or rollout.net.net.heads != self.net.net.heads \
                or rollout.net.net.mask_size != self.net.net.mask_size:
            raise ArgumentError("rollout is of another policy")
        if self.order is None or len(self.order) < rollout.ro.tiles:
            self.order = aligned(rollout.ro.tiles, np.int32)
            self.learner.order = <int32_t *>data(self.order)
        return 0

    cdef int fit_current(self, Rollout rollout) except -1:
        """Room for what is computed of rollouts that lag."""
        self.fit(rollout)
        if self.current is None or len(self.current) < rollout.ro.tiles:
            self.current = aligned((rollout.ro.tiles, HR_TILE), np.float32)
            self.weights = aligned((rollout.ro.tiles, 2), np.float64)
            self.learner.current = <float *>data(self.current)
            self.learner.weights = <double *>data(self.weights)
        return 0

    def learn(self, Rollout rollout not None, float lr, float entropy_coef, *, lagged=False):
        """One update; (fault or None, statistics in the order of hr_learn_stats).

        lagged: rows of the rollout were acted by older weights than the learner's."""
        cdef hr_fault fault
        cdef hr_learn_stats s
        self.fit(rollout)
        if lagged:
            self.fit_current(rollout)
        self.options.lagged = lagged
        self.options.lr, self.options.entropy_coef = lr, entropy_coef
        with nogil:
            fault = hr_learn(&self.learner, &rollout.ro, &self.options, self.workers.api,
                             self.workers.pool, &s)
        if fault.kind:
            return fault_tuple(fault), ()
        return None, (s.policy_loss, s.value_loss, s.entropy, s.kl, s.clip_fraction, s.grad_norm,
                      s.explained_variance, s.ess)

    def current_logp(self, Rollout rollout not None):
        """Log-probabilities [tiles, 64] of the rollout's actions under the parameters, and per
        tile [tiles, 2] the sums of the rows' weights (current / behaviour) and their squares."""
        self.fit_current(rollout)
        with nogil:
            hr_current(&self.learner, &rollout.ro, 1, self.workers.api, self.workers.pool)
        tiles = rollout.ro.tiles
        return self.current[:tiles].copy(), self.weights[:tiles].copy()

    def gradient(self, Rollout rollout not None, float entropy_coef, *, float advantage_mean=0.0,
                 float advantage_scale=1.0, proximal=None):
        """Gradient of the mean loss over the whole rollout, [num_params], and the sums of the
        loss; changes no parameter.

        proximal: log-probabilities float32 [tiles, 64] that the ratio is taken to; rows are
        then weighed by proximal / behaviour. None: the behaviour policy's, and no weights."""
        cdef hr_loss_options loss
        cdef hr_reference reference
        reference.logp, reference.proximal = rollout.ro.logp, NULL
        if proximal is not None:
            own = aligned((rollout.ro.tiles, HR_TILE), np.float32)
            own[:] = proximal
            reference.proximal = <const float *>data(own)
        self.fit(rollout)
        order = np.arange(rollout.ro.tiles, dtype=np.int32)
        loss.clip, loss.value_clip = self.options.clip, self.options.value_clip
        loss.value_coef, loss.entropy_coef = self.options.value_coef, entropy_coef
        loss.advantage_mean, loss.advantage_scale = advantage_mean, advantage_scale
        loss.scale, loss.weight_max = 1.0 / rollout.ro.valid_rows, self.options.weight_max
        hr_gradient(&self.learner, &rollout.ro, reference, <const int32_t *>data(order),
                    rollout.ro.tiles, &loss, self.workers.api, self.workers.pool)
        return self.grads[0].copy(), self.sums[0].copy()

    def profile(self):
        """Seconds per stage, summed over threads; without profile=True those of whole tasks and
        of the optimiser alone."""
        return dict(zip(STAGES, self.seconds.sum(0).tolist()))

    def state_dict(self):
        """Everything that `load_state_dict` needs."""
        return {
            "params": self.params.copy(), "m": self.m.copy(), "v": self.v.copy(),
            "steps": int(self.learner.steps), "shuffles": int(self.learner.shuffles),
        }

    def load_state_dict(self, state):
        """Continues where `state_dict` was taken."""
        self.params[:], self.m[:], self.v[:] = state["params"], state["m"], state["v"]
        self.learner.steps, self.learner.shuffles = state["steps"], state["shuffles"]


def gae(reward, value, done, bootstrap, valid, last, float gamma, float gae_lambda, *,
        logp=None, current=None, float rho_max=1.0, float c_max=1.0):
    """Advantages and value targets of float32 arrays [steps, rows], rows a multiple of 64, on
    64-byte boundaries; last [rows]. With logp and current (of the behaviour and of the current
    policy) V-trace."""
    cdef hr_gae_rows rows
    cdef hr_gae_options options
    cdef hr_moments moments
    memset(&moments, 0, sizeof(moments))
    options.gamma, options.lambda_ = gamma, gae_lambda
    shape = reward.shape
    if len(shape) != 2 or shape[1] % HR_TILE:
        raise ArgumentError(f"reward has shape {shape}: expected [steps, rows], rows whole tiles")
    for name, array in (("reward", reward), ("value", value), ("done", done),
                        ("bootstrap", bootstrap), ("valid", valid)):
        _aligned_floats(array, shape, name)
    _aligned_floats(last, shape[1:], "last")
    if current is not None:
        _aligned_floats(logp, shape, "logp")
        _aligned_floats(current, shape, "current")
    advantage, ret = aligned(shape, np.float32), aligned(shape, np.float32)
    options.rho_max, options.c_max = rho_max, c_max
    rows.reward, rows.value = <const float *>data(reward), <const float *>data(value)
    rows.done, rows.bootstrap = <const float *>data(done), <const float *>data(bootstrap)
    rows.valid, rows.last = <const float *>data(valid), <const float *>data(last)
    rows.logp = NULL if logp is None else <const float *>data(logp)
    rows.current = NULL if current is None else <const float *>data(current)
    hr_kernels_get().gae(len(reward), reward.shape[1], &rows, &options, <float *>data(advantage),
                         <float *>data(ret), &moments)
    return advantage, ret


def adam(params, grad, m, v, step, lr, betas, eps):
    """One Adam step in place; float32 arrays of one size; step counts from 1."""
    cdef hr_adam_options o
    for name, array in (("params", params), ("grad", grad), ("m", m), ("v", v)):
        _checked(array, np.float32, params.size, name)
    o.lr, o.beta1, o.beta2, o.eps, o.scale = lr, betas[0], betas[1], eps, 1.0
    o.correction1, o.correction2 = 1.0 - betas[0] ** step, 1.0 - betas[1] ** step
    hr_kernels_get().adam(params.size, <const float *>data(grad), &o, <float *>data(params),
                          <float *>data(m), <float *>data(v))
