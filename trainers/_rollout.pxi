# Included by _native.pyx: rollouts, and what a stepped collector writes into them.


cdef bint _finite(const double *x, int64_t n) noexcept:
    """Whether all n are; NULL has none."""
    cdef int64_t k
    if x != NULL:
        for k in range(n):
            if not isfinite(x[k]):
                return False
    return True


cdef class Rollout:
    """T steps of every row in tiles of 64 rows (csrc/rollout.h gives their order).

    Attributes: obs [tiles, features, 64], actions int32 [tiles, heads, 64] (floats by their
    bits, as sampled), mask uint8 [tiles, mask_size, 64] or None, and float32 [tiles, 64]: logp,
    value, reward, done, bootstrap, valid, advantage, ret (the value target); states float32
    [blocks * agents, state_size, 64]: what was remembered before the first step; tile_rows int32
    [tiles]; last float32 [blocks, agents * 64]: V(observation) after the last step;
    block_versions int64 [blocks]: of the weights that acted; version: the oldest of them;
    steps: valid rows.
    """

    cdef hr_rollout ro
    cdef readonly Net net
    cdef readonly object obs, actions, mask, logp, value, reward, done, bootstrap, valid
    cdef readonly object advantage, ret, states, last, tile_rows, obs_sums, reward_sums, moments
    cdef readonly object block_versions, obs_centres, reward_centres
    cdef object episodes, block_episodes, logs
    cdef public int64_t version

    def __init__(self, Net net not None, *, horizon, worlds, agents, normalize_obs=False,
                 normalize_reward=False, state_size=None):
        """state_size: default: the network's."""
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
        size = net.net.state if state_size is None else state_size
        self.states = aligned((blocks * agents, size, HR_TILE), np.float32)
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
        ro.states = <float *>data(self.states)
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

    cdef int64_t rows_of(self, int64_t block) noexcept:
        """Valid rows of a block."""
        cdef int64_t tiles = self.ro.horizon * self.ro.agents, rows = 0, k
        for k in range(block * tiles, (block + 1) * tiles):
            rows += self.ro.tile_rows[k]
        return rows

    def lag(self, int64_t version):
        """(mean, greatest) number of updates between the weights that acted and `version`,
        over valid rows."""
        cdef int64_t b, rows, lag, greatest = 0, total = 0, weighed = 0
        for b in range(self.ro.blocks):
            rows = self.rows_of(b)
            if rows:
                lag = version - self.ro.versions[b]
                greatest = lag if total == 0 else max(lag, greatest)
                total += rows
                weighed += rows * lag
        return (weighed / <double>total if total else 0.0), greatest

    cdef void find_version(self) noexcept:
        """Notes the oldest weights that acted in any block."""
        cdef int64_t b
        self.version = self.ro.versions[0]
        for b in range(1, self.ro.blocks):
            self.version = min(self.version, self.ro.versions[b])

    def overflows(self):
        """Which sums are not finite though the numbers are: "observation", "reward" or "return";
        None: none."""
        cdef int64_t blocks = self.ro.blocks
        if not _finite(self.ro.obs_sums, 2 * blocks * self.ro.features):
            return "observation"
        if not _finite(self.ro.reward_sums, 3 * blocks):
            return "reward"
        if not _finite(<double *>self.ro.moments, blocks * sizeof(hr_moments) // sizeof(double)):
            return "return"
        return None

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
        self.last.reshape(-1)[:] = _checked(last, np.float32, self.last.size, "last")
        self.estimate(gamma, gae_lambda)
        self.tile_rows[:] = (self.valid > 0).sum(1)
        self.ro.valid_rows = int(self.tile_rows.sum())

    def estimate(self, float gamma, float gae_lambda, *, current=None, float rho_max=1.0,
                 float c_max=1.0):
        """Advantages and value targets of a rollout that is there; with `current`, float32
        [tiles, 64] on a 64-byte boundary, log-probabilities under the policy that learns, by
        V-trace."""
        cdef hr_gae_options options
        cdef const float *now = NULL
        cdef int64_t b, width = self.ro.agents * HR_TILE, size = self.ro.horizon * width
        cdef hr_gae_rows rows
        if current is not None:
            _aligned_floats(current, (self.ro.tiles, HR_TILE), "current")
            now = <const float *>data(current)
        options.gamma, options.lambda_ = gamma, gae_lambda
        options.rho_max, options.c_max = rho_max, c_max
        rows.logp = rows.current = NULL
        memset(self.ro.moments, 0, self.ro.blocks * sizeof(hr_moments))
        for b in range(self.ro.blocks):
            rows.reward, rows.value = self.ro.reward + b * size, self.ro.value + b * size
            rows.done, rows.bootstrap = self.ro.done + b * size, self.ro.bootstrap + b * size
            rows.valid, rows.last = self.ro.valid + b * size, self.ro.last + b * width
            if now != NULL:
                rows.logp, rows.current = self.ro.logp + b * size, now + b * size
            self.net.kernels.gae(self.ro.horizon, width, &rows, &options,
                                 self.ro.advantage + b * size, self.ro.ret + b * size,
                                 &self.ro.moments[b])

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


def normalize_rows(x, mean, scale, float clip):
    """(x - mean) * scale within [-clip, clip], float32 [n, features], a new array; mean and scale
    float32 [features]."""
    cdef int64_t n = len(x), features = len(mean), r, c
    made = np.empty((n, features), np.float32)
    cdef const float *given = <const float *>data(_checked(x, np.float32, n * features, "x"))
    cdef const float *centre = <const float *>data(
        _checked(mean, np.float32, features, "mean"))
    cdef const float *factor = <const float *>data(
        _checked(scale, np.float32, features, "scale"))
    cdef float *to = <float *>data(made)
    cdef float y
    with nogil:
        for r in range(n):
            for c in range(features):
                y = (given[c] - centre[c]) * factor[c]
                to[c] = clip if y > clip else -clip if y < -clip else y
            given, to = given + features, to + features
    return made


def sums_of_rows(x, valid, centre):
    """Of x - centre and of its square over the valid rows of x float32 [n, features], float64
    [2, features]; valid float32 [n], centre float32 [features]."""
    cdef int64_t n = len(x), features = len(centre), r, c
    made = np.zeros((2, features), np.float64)
    cdef const float *given = <const float *>data(_checked(x, np.float32, n * features, "x"))
    cdef const float *counts = <const float *>data(_checked(valid, np.float32, n, "valid"))
    cdef const float *middle = <const float *>data(
        _checked(centre, np.float32, features, "centre"))
    cdef double *total = <double *>data(made)
    cdef double *square = total + features
    cdef double away
    with nogil:
        for r in range(n):
            if counts[r] > 0:
                for c in range(features):
                    away = <double>given[c] - <double>middle[c]
                    total[c] += away
                    square[c] += away * away
            given += features
    return made


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
