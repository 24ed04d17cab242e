# Included by _native.pyx: the learner and its optimiser.


PAST = ("obs", "valid", "done", "states")  # arrays of a rollout that hr_past keeps


cdef int check_room(needed, horizon) except -1:
    """ArgumentError before sequences take more memory than there is."""
    available = available_memory()
    if available is not None and needed > available:
        raise ArgumentError(
            f"learning from {horizon} steps would need {show_bytes(needed)} of memory, of which "
            f"{show_bytes(available)} are available: use a shorter horizon")
    return 0


cdef class Learner:
    """An hr_learner: parameters, Adam's moments and the scratch of the gradient."""

    cdef hr_learner learner
    cdef hr_learn_options options
    cdef readonly Net net
    cdef Workers workers
    cdef readonly object params, m, v, grads, sums
    cdef object order, current, weights, scratch
    cdef readonly object seconds
    cdef object past  # (obs, valid, done, states) of the rollout before, None until there is one
    cdef readonly bint recall
    cdef StopFlag stop

    def __init__(self, Net net not None, Workers workers not None, params, *, key, recall=False,
                 profile=False, StopFlag stop=None, **options):
        """options: of `set_options`; recall: what is remembered when a rollout begins is computed
        anew, from the rollout before."""
        cdef hr_learner *l = &self.learner
        if stop is not None:
            self.stop = stop
            l.stop = &stop.raised
        self.net, self.workers = net, workers
        self.recall = recall and net.net.state > 0
        n = net.net.params
        self.params, self.m, self.v = (aligned(n, np.float32) for _ in range(3))
        self.params[:] = _checked(params, np.float32, n, "params")
        l.grad_size = -(-n // (HR_LINE // 4)) * (HR_LINE // 4)
        self.grads = aligned((HR_MAX_CHUNKS, l.grad_size), np.float32)
        self.sums = aligned((HR_MAX_CHUNKS, HR_SUMS_APART), np.float64)
        l.net, l.kernels, l.key = &net.net, net.kernels, key
        l.params, l.m, l.v = <float *>data(self.params), <float *>data(self.m), <float *>data(self.v)
        l.grads, l.sums = <float *>data(self.grads), <double *>data(self.sums)
        self.seconds = aligned((workers.threads, HR_TIMES_APART), np.float64)[:, :HR_TIMES]
        l.seconds, l.detailed = <double *>data(self.seconds), profile
        self.set_options(**options)

    def set_options(self, *, epochs, minibatches, normalize_advantage, clip, value_clip,
                    value_coef, max_grad_norm, betas, eps, correction="clip", weight_max=1.0,
                    gamma=1.0, gae_lambda=1.0, rho_max=1.0, c_max=1.0, target_kl=0.0):
        """Settings of every update; see hr_learn_options."""
        cdef hr_learn_options *o = &self.options
        o.epochs, o.minibatches, o.normalize_advantage = epochs, minibatches, normalize_advantage
        o.clip, o.value_clip, o.value_coef = clip, value_clip, value_coef
        o.max_grad_norm, o.beta1, o.beta2, o.eps = max_grad_norm, betas[0], betas[1], eps
        o.target_kl = target_kl
        o.correction, o.weight_max = CORRECTIONS.index(correction), weight_max
        o.gae.gamma, o.gae.lambda_ = gamma, gae_lambda
        o.gae.rho_max, o.gae.c_max = rho_max, c_max

    cdef int fit(self, Rollout rollout) except -1:
        """Room for what one rollout needs."""
        cdef hr_learner *l = &self.learner
        cdef const hr_net *net = &self.net.net
        cdef const hr_net *other = &rollout.net.net
        if other.features != net.features or other.heads != net.heads \
                or other.mask_size != net.mask_size or rollout.states.shape[1] != net.state:
            raise ArgumentError("rollout is of another policy")
        if self.order is None or self.order.shape[1] < rollout.ro.tiles:
            self.order = aligned((3, rollout.ro.tiles), np.int32)
            l.order = <int32_t *>data(self.order[0])
            l.part = <int32_t *>data(self.order[1])
            l.filled = <int32_t *>data(self.order[2])
        size = hr_learn_scratch(net, rollout.ro.horizon)
        if self.scratch is None or l.scratch_size < size:
            check_room(size * self.workers.threads, rollout.ro.horizon)
            self.scratch = aligned(size * self.workers.threads, np.uint8)
            l.scratch, l.scratch_size = <char *>data(self.scratch), size
        if self.recall and self.past is None:
            self.make_past([getattr(rollout, name).shape for name in PAST])
        if self.past is not None and self.past[0].shape != rollout.obs.shape:
            raise ArgumentError("rollout has another shape than the one before")
        return 0

    cdef int make_past(self, shapes) except -1:
        """Room for the rollout before."""
        self.past = tuple(aligned(shape, np.float32) for shape in shapes)
        self.learner.past.obs = <float *>data(self.past[0])
        self.learner.past.valid = <float *>data(self.past[1])
        self.learner.past.done = <float *>data(self.past[2])
        self.learner.past.states = <float *>data(self.past[3])
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
        units = hr_units(&self.net.net, &rollout.ro)
        order = np.arange(units, dtype=np.int32)
        loss.clip, loss.value_clip = self.options.clip, self.options.value_clip
        loss.value_coef, loss.entropy_coef = self.options.value_coef, entropy_coef
        loss.advantage_mean, loss.advantage_scale = advantage_mean, advantage_scale
        loss.scale, loss.weight_max = 1.0 / rollout.ro.valid_rows, self.options.weight_max
        hr_gradient(&self.learner, &rollout.ro, reference, <const int32_t *>data(order),
                    units, &loss, self.workers.api, self.workers.pool)
        return self.grads[0, : len(self.params)].copy(), self.sums[0, :HR_SUMS].copy()

    def profile(self):
        """Seconds per stage, summed over threads; without profile=True those of whole tasks and
        of the optimiser alone."""
        return dict(zip(STAGES, self.seconds.sum(0).tolist()))

    def state_dict(self):
        """Everything that `load_state_dict` needs."""
        state = {
            "params": self.params.copy(), "m": self.m.copy(), "v": self.v.copy(),
            "steps": int(self.learner.steps), "shuffles": int(self.learner.shuffles),
        }
        if self.learner.past.there:
            state["past"] = {name: a.copy() for name, a in zip(PAST, self.past)}
        return state

    def load_state_dict(self, state):
        """Continues where `state_dict` was taken."""
        self.params[:], self.m[:], self.v[:] = state["params"], state["m"], state["v"]
        self.learner.steps, self.learner.shuffles = state["steps"], state["shuffles"]
        self.learner.past.there = 0
        if self.recall and "past" in state:
            self.load_past(state["past"])

    cdef int load_past(self, saved) except -1:
        """The rollout before the next one, as it was saved."""
        self.make_past([saved[name].shape for name in PAST])
        for array, name in zip(self.past, PAST):
            array[:] = saved[name]
        self.learner.past.there = 1
        return 0


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
