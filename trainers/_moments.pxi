# Included by _native.pyx: running mean and variance, merged from the sums of rollouts.

cdef double VARIANCE_EPSILON = 1e-8  # added to a variance before its root is divided by


cdef class RunningMoments:
    """Mean and variance of [size] quantities over everything seen (Chan et al. 1979).

    Attributes: count; mean float64 [size]; square float64 [size]: the sum of squared distances to
    the mean.
    """

    cdef readonly double count
    cdef readonly object mean, square

    def __init__(self, int64_t size):
        self.mean, self.square = np.zeros(size), np.zeros(size)

    cdef void add(self, double count, const double *total, const double *square,
                  const double *centre) noexcept:
        """Takes in `count` values x, by the sums of x - centre and of (x - centre)^2."""
        cdef double *mean = <double *>data(self.mean)
        cdef double *spread = <double *>data(self.square)
        cdef double both = self.count + count, delta
        cdef int64_t k
        if count == 0:
            return
        for k in range(len(self.mean)):
            delta = centre[k] + total[k] / count - mean[k]
            mean[k] += delta * (count / both)
            spread[k] += (max(square[k] - total[k] * total[k] / count, 0.0)
                          + delta * delta * (self.count * count / both))
        self.count = both

    def merge(self, double count, total, square, centre):
        """Takes in `count` values x, given the sums of x - centre and of (x - centre)^2, [size]."""
        total, square, centre = [
            np.ascontiguousarray(np.broadcast_to(each, self.mean.shape), np.float64)
            for each in (total, square, centre)
        ]
        self.add(count, <double *>data(total), <double *>data(square), <double *>data(centre))

    def merge_observations(self, Rollout rollout not None):
        """Takes in the rollout's obs_sums; each block's are about a centre of their own."""
        cdef hr_rollout *ro = &rollout.ro
        cdef int64_t b, size = ro.features
        cdef double *sums
        if ro.obs_sums == NULL or size != len(self.mean):
            raise ArgumentError("rollout has no sums of so many features")
        for b in range(ro.blocks):
            sums = ro.obs_sums + 2 * b * size
            self.add(<double>rollout.rows_of(b), sums, sums + size, ro.obs_centres + b * size)

    def merge_rewards(self, Rollout rollout not None):
        """Takes in the rollout's reward_sums, likewise."""
        cdef hr_rollout *ro = &rollout.ro
        cdef int64_t b
        cdef double *sums
        if ro.reward_sums == NULL or len(self.mean) != 1:
            raise ArgumentError("rollout has no sums of its rewards")
        for b in range(ro.blocks):
            sums = ro.reward_sums + 3 * b
            self.add(sums[0], sums + 1, sums + 2, ro.reward_centres + b)

    def scale(self):
        """1 / standard deviation, float64 [size]; 1 before anything was seen."""
        found = np.empty(len(self.mean))
        cdef double *scale = <double *>data(found)
        cdef double *square = <double *>data(self.square)
        cdef int64_t k
        for k in range(len(self.mean)):
            scale[k] = 1.0
            if self.count > 0:
                scale[k] /= sqrt(square[k] / self.count + VARIANCE_EPSILON)
        return found

    def state_dict(self):
        """Everything that `load_state_dict` needs."""
        return {"count": self.count, "mean": self.mean.copy(), "square": self.square.copy()}

    def load_state_dict(self, state):
        """Continues where `state_dict` was taken."""
        size = len(self.mean)
        mean, square = [_checked(np.array(state[name], np.float64), np.float64, size, name)
                        for name in ("mean", "square")]
        self.count, self.mean, self.square = float(state["count"]), mean, square
