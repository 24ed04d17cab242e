# Included by _native.pyx: what csrc/ and the engine's headers declare.


cdef extern from "../../engine/core/vec.h" nogil:
    ctypedef struct hr_env:
        int32_t agents, obs_size, action_size, mask_size
    ctypedef struct hr_vec:
        uint64_t size
        const hr_env *env
        int64_t worlds, rows
        int32_t autoreset
    int HR_SAME_STEP


cdef extern from "../../engine/core/pool.h" nogil:
    ctypedef struct hr_pool:
        pass
    ctypedef void (*hr_task_fn)(void *, int64_t, int) noexcept
    ctypedef struct hr_job:
        hr_task_fn fn
        void *arg
        int64_t tasks
    ctypedef struct hr_pool_api:
        uint64_t size, job_size
        void (*run)(hr_pool *, hr_task_fn, void *, int64_t) noexcept
        void (*submit)(hr_pool *, hr_job *) noexcept
        void (*wait)(hr_pool *, hr_job *) noexcept
        int (*done)(hr_pool *, hr_job *) noexcept
        int (*threads)(const hr_pool *) noexcept


cdef extern from "net.h" nogil:
    int HR_TILE, HR_LINE, HR_MAX_DEPTH

    ctypedef struct hr_layer:
        int32_t in_ "in"
        int32_t out, activation, hidden
        int64_t weight, bias

    ctypedef struct hr_tower:
        int32_t layers, output
        hr_layer *layer

    ctypedef struct hr_head:
        int32_t kind, size, output, mask, draw, offset
        int64_t log_std
        float low, high

    ctypedef struct hr_input:
        int32_t dtype, offset, count, choices, feature
        float scale

    ctypedef struct hr_net:
        int32_t features, outputs, hidden, width, towers, heads, inputs
        int32_t mask_size, action_size, obs_size, plain, state
        int64_t params
        hr_tower tower[2]
        const hr_head *head
        const hr_input *input


cdef extern from "kernels.h" nogil:
    int HR_SUMS, HR_SUMS_APART, HR_HEAD_WORK

    ctypedef struct hr_loss_options:
        float clip, value_clip, value_coef, entropy_coef
        float advantage_mean, advantage_scale, scale, weight_max

    ctypedef struct hr_loss_rows:
        const int32_t *actions
        const float *logp
        const float *proximal
        const float *value
        const float *advantage
        const float *ret
        const float *valid
        const uint8_t *mask

    ctypedef struct hr_draw:
        uint64_t key, step
        uint32_t row
        int32_t greedy
        const uint32_t *rows
        const uint64_t *steps

    ctypedef struct hr_adam_options:
        float lr, beta1, beta2, eps, correction1, correction2, scale

    ctypedef struct hr_gae_options:
        float gamma
        float lambda_ "lambda"
        float rho_max, c_max

    ctypedef struct hr_gae_rows:
        const float *reward
        const float *value
        const float *done
        const float *bootstrap
        const float *valid
        const float *last
        const float *logp
        const float *current

    ctypedef struct hr_moments:
        double count, advantage, advantage2, ret, ret2, error, error2

    ctypedef struct hr_kernels:
        const char *name
        void (*mingru)(int, const float *, const float *, const float *, float *,
                       float *) noexcept nogil
        void (*mingru_back)(int, const float *, const float *, const float *, const float *,
                            const float *, float *, float *) noexcept nogil
        void (*sample)(const hr_net *, const float *, const float *, const uint8_t *,
                       const hr_draw *, int32_t *, float *, float *) noexcept nogil
        void (*loss)(const hr_net *, const float *, const hr_loss_options *, const hr_loss_rows *,
                     const float *, float *, float *, float *, double *) noexcept nogil
        void (*encode)(const hr_net *, const void *, int, const uint8_t *,
                       float *) noexcept nogil
        void (*observe)(int, const float *, const float *, const float *, double *,
                        double *) noexcept nogil
        void (*normalize)(int, const float *, const float *, float, float *) noexcept nogil
        void (*gae)(int, int, const hr_gae_rows *, const hr_gae_options *, float *, float *,
                    hr_moments *) noexcept
        void (*adam)(int64_t, const float *, const hr_adam_options *, float *, float *,
                     float *) noexcept

    const hr_kernels *hr_kernels_get() noexcept
    const hr_kernels *hr_kernels_named(const char *) noexcept


cdef extern from "forward.h" nogil:
    ctypedef struct hr_memory:
        const float *before
        const float *began
        const float *live
        float *after

    void hr_forward(const hr_net *, const hr_kernels *, const float *, const float *,
                    const hr_memory *, float *, float *) noexcept


cdef extern from "rollout.h" nogil:
    int HR_TIMES, HR_TIMES_APART

    ctypedef struct hr_episode:
        int32_t step, row
        float ret
        int32_t length

    ctypedef struct hr_fault:
        int32_t kind, step
        int64_t row
        int32_t feature
        float value

    ctypedef struct hr_block_log:
        int64_t episodes

    ctypedef struct hr_rollout:
        int32_t horizon, blocks, agents, features, heads, mask_size
        int64_t tiles
        float *obs
        int32_t *actions
        uint8_t *mask
        float *logp
        float *value
        float *reward
        float *done
        float *bootstrap
        float *valid
        float *advantage
        float *ret
        float *states
        float *last
        int32_t *tile_rows
        hr_moments *moments
        int64_t *versions
        double *obs_centres
        double *reward_centres
        double *obs_sums
        double *reward_sums
        hr_episode *episodes
        hr_episode *block_episodes
        hr_block_log *logs
        int64_t episode_count, valid_rows

    ctypedef struct hr_weights:
        const float *params
        const float *obs_mean
        const float *obs_scale
        float reward_mean, reward_scale
        int64_t version


cdef extern from "slots.h" nogil:
    ctypedef struct hr_slot:
        hr_weights weights

    ctypedef struct hr_slots:
        hr_slot *slot
        int32_t count

    void hr_slots_init(hr_slots *, const hr_weights *) noexcept
    int hr_slots_claim(hr_slots *) noexcept
    void hr_slots_publish(hr_slots *, int, const hr_weights *) noexcept


cdef extern from "collect.h" nogil:
    ctypedef struct hr_collector:
        const hr_net *net
        const hr_kernels *kernels
        hr_vec *vec
        hr_gae_options gae
        float obs_clip, reward_clip
        uint64_t key
        float *states
        float *discounted
        char *scratch
        int64_t scratch_size
        double *seconds
        int32_t timed
        const int32_t *stop

    ctypedef struct hr_share:
        hr_collector *collector
        int32_t first, blocks
        uint64_t step
        const hr_weights *weights
        hr_slots *slots
        hr_rollout *rollout
        hr_job job

    int64_t hr_collect_scratch(const hr_net *) noexcept
    void hr_share_start(hr_share *, const hr_pool_api *, hr_pool *) noexcept
    void hr_share_run(hr_share *, const hr_pool_api *, hr_pool *) noexcept
    void hr_share_wait(hr_share *, const hr_pool_api *, hr_pool *) noexcept
    hr_fault hr_collect_finish(hr_rollout *) noexcept


cdef extern from "learn.h" nogil:
    int HR_MAX_CHUNKS

    ctypedef struct hr_learn_options:
        int32_t epochs, minibatches, normalize_advantage
        float clip, value_clip, value_coef, entropy_coef, max_grad_norm, target_kl
        float lr, beta1, beta2, eps
        int32_t correction, lagged
        float weight_max
        hr_gae_options gae

    ctypedef struct hr_learn_stats:
        double policy_loss, value_loss, entropy, kl, clip_fraction, grad_norm, explained_variance
        double ess

    ctypedef struct hr_reference:
        const float *logp
        const float *proximal

    ctypedef struct hr_past:
        float *obs
        float *valid
        float *done
        float *states
        int32_t there

    ctypedef struct hr_learner:
        const hr_net *net
        const hr_kernels *kernels
        float *params
        float *m
        float *v
        int64_t steps
        uint64_t key, shuffles
        int32_t *order
        int32_t *part
        int32_t *filled
        hr_past past
        float *current
        double *weights
        float *grads
        int64_t grad_size
        double *sums
        char *scratch
        int64_t scratch_size
        double *seconds
        int32_t detailed
        const int32_t *stop

    int64_t hr_learn_scratch(const hr_net *, int64_t) noexcept
    int64_t hr_units(const hr_net *, const hr_rollout *) noexcept
    hr_fault hr_learn(hr_learner *, const hr_rollout *, const hr_learn_options *,
                      const hr_pool_api *, hr_pool *, hr_learn_stats *) noexcept
    void hr_gradient(hr_learner *, const hr_rollout *, hr_reference, const int32_t *, int64_t,
                     const hr_loss_options *, const hr_pool_api *, hr_pool *) noexcept
    void hr_current(hr_learner *, const hr_rollout *, int64_t, const hr_pool_api *,
                    hr_pool *) noexcept
