# Included by _core.pyx: hr_env from Python values, for environments that are compiled in memory.

from libc.stdlib cimport calloc, free


cdef dict batch_offsets():
    cdef hr_batch batch
    cdef char *start = <char *>&batch
    return {
        "params": <char *>&batch.params - start,
        "params_stride": <char *>&batch.params_stride - start,
        "state": <char *>&batch.state - start,
        "rng": <char *>&batch.rng - start,
        "actions": <char *>&batch.actions - start,
        "rewards": <char *>&batch.rewards - start,
        "terminated": <char *>&batch.terminated - start,
        "truncated": <char *>&batch.truncated - start,
        "obs": <char *>&batch.obs - start,
    }


cdef dict frame_offsets():
    cdef hr_frame frame
    cdef char *start = <char *>&frame
    return {
        "pixels": <char *>&frame.pixels - start,
        "width": <char *>&frame.width - start,
        "height": <char *>&frame.height - start,
    }


BATCH_OFFSETS = batch_offsets()  # of the members of hr_batch, in bytes
FRAME_OFFSETS = frame_offsets()  # of the members of hr_frame
RNG_SIZE = sizeof(hr_rng)


cdef int set_address(void *member, size_t address) except -1:
    """Writes a function's address into a member of hr_env; 0 is none."""
    memcpy(member, &address, sizeof(address))
    return 0


cdef class Description:
    """An hr_env that was not loaded from a file.

    told: as `Library.describe` has it; kernels: the address of each range kernel by its name in
    hr_env; checked: the environment reports failures (`fail`).
    """

    cdef hr_env env
    cdef hr_failure failure
    cdef hr_field *fields
    cdef hr_param *params
    cdef const char **metric_names
    cdef list texts  # keeps the names alive

    def __cinit__(self):
        self.fields = NULL
        self.params = NULL
        self.metric_names = NULL

    def __init__(self, dict told, dict kernels, bint checked=False):
        cdef hr_env *env = &self.env
        if self.fields != NULL:
            raise CallOrderError("Description is initialised already")
        self.texts = []
        observed, acting = told["obs_fields"], told["action_fields"]
        params, metrics = told["params"], told["metric_names"]
        self.fields = <hr_field *>calloc(len(observed) + len(acting) + 1, sizeof(hr_field))
        self.params = <hr_param *>calloc(len(params) + 1, sizeof(hr_param))
        self.metric_names = <const char **>calloc(len(metrics) + 1, sizeof(char *))
        if self.fields == NULL or self.params == NULL or self.metric_names == NULL:
            raise MemoryError("no memory for the description of an environment")
        for i, field in enumerate([*observed, *acting]):
            self.set_field(&self.fields[i], field)
        for i, param in enumerate(params):
            self.params[i].name = self.text(param["name"])
            self.params[i].dtype = DTYPES.index(param["dtype"])
            self.params[i].offset = param["offset"]
            self.params[i].length_offset = param["length_offset"]
            self.params[i].initial = param["default"] or 0.0
        for i, name in enumerate(metrics):
            self.metric_names[i] = self.text(name)
        env.abi_version = HR_ABI_VERSION
        env.name = self.text(told["name"])
        env.source_hash = self.text(told["source_hash"])
        env.agents = told["agents"]
        env.max_steps = told["max_steps"]
        env.state_size = told["state_size"]
        env.params_size = told["params_size"]
        env.action_size = told["action_size"]
        env.obs_size = told["obs_size"]
        env.mask_size = told["mask_size"]
        env.metrics_size = <int32_t>len(metrics)
        env.obs_fields_count = <int32_t>len(observed)
        env.action_fields_count = <int32_t>len(acting)
        env.params_count = <int32_t>len(params)
        env.obs_fields = self.fields
        env.action_fields = self.fields + env.obs_fields_count
        env.param_list = self.params
        env.metric_names = self.metric_names
        set_address(&env.step, kernels["step"])
        set_address(&env.observe, kernels["observe"])
        set_address(&env.reset, kernels["reset"])
        set_address(&env.present, kernels.get("present", 0))
        set_address(&env.mask, kernels.get("mask", 0))
        set_address(&env.metrics, kernels.get("metrics", 0))
        set_address(&env.draw, kernels.get("draw", 0))
        self.failure.world = -1
        env.failure = &self.failure if checked else NULL

    def __dealloc__(self):
        free(self.fields)
        free(self.params)
        free(self.metric_names)

    cdef const char *text(self, str value) except NULL:
        encoded = value.encode()
        self.texts.append(encoded)
        return <const char *><bytes>encoded

    cdef int set_field(self, hr_field *target, dict field) except -1:
        target.name = self.text(field["name"])
        target.kind = KINDS.index(field["kind"])
        target.dtype = DTYPES.index(field["dtype"])
        target.offset = field["offset"]
        if len(field["shape"]) > HR_MAX_RANK:
            raise ValueError(f"field {field['name']!r} has more than {HR_MAX_RANK} dimensions")
        target.rank = <int32_t>len(field["shape"])
        for i, size in enumerate(field["shape"]):
            target.shape[i] = size
        target.low = field["low"]
        target.high = field["high"]
        target.choices = field["choices"]
        return 0

    def fail(self, str message, str file, int32_t line, int64_t world):
        """Reports a failure, as HR_CHECK does; later ones are dropped until it was taken."""
        if self.failure.message == NULL:
            self.failure.file = self.text(file)
            self.failure.line = line
            self.failure.world = world
            self.failure.message = self.text(message)

    @property
    def capsule(self):
        """Capsule "headrace.hr_env", for `Library.from_capsule`."""
        return owned_capsule(&self.env, "headrace.hr_env", self)
