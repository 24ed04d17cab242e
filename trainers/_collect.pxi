# Included by _native.pyx: fused collection.


cdef class Collector:
    """An hr_collector over the worlds in a capsule "headrace.hr_vec"."""

    cdef hr_collector collector
    cdef Net net
    cdef Workers workers
    cdef object vec, states, discounted, scratch
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
        self.states = aligned((self.blocks * c.vec.env.agents, net.net.state, HR_TILE), np.float32)
        c.states = <float *>data(self.states)
        if reward_clip > 0:
            self.discounted = aligned(c.vec.rows, np.float32)
            c.discounted = <float *>data(self.discounted)
        self.seconds = aligned((workers.threads, HR_TIMES_APART), np.float64)[:, :HR_TIMES]
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
            ("state_size", rollout.states.shape[1], net.state),
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
        rollout.find_version()
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
        if self.states.size:
            state["states"] = self.states.copy()
        return state

    def load_state_dict(self, state):
        """Continues where `state_dict` was taken."""
        self.set_step(state["step"])
        if self.discounted is not None:
            _same("length of discounted", len(state["discounted"]), len(self.discounted))
            self.discounted[:] = state["discounted"]
        if self.states.size:
            if state["states"].shape != self.states.shape:
                raise ArgumentError(f"states are {list(state['states'].shape)}: expected "
                                    f"{list(self.states.shape)}")
            self.states[:] = state["states"]


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
