# Included by _core.pyx: hr_env as plain Python.

DTYPES = ("float32", "uint8", "int8", "int16", "int32", "float64", "int64")  # by hr_dtype
MAX_AGENTS = 4096  # of one world: their outcomes lie on the stack
KINDS = ("box", "discrete")  # by hr_kind


cdef dict describe_field(const hr_field *field):
    return {
        "name": field.name.decode(),
        "kind": KINDS[field.kind],
        "dtype": DTYPES[field.dtype],
        "offset": field.offset,
        "shape": tuple([field.shape[i] for i in range(field.rank)]),
        "low": field.low,
        "high": field.high,
        "choices": field.choices,
    }


cdef dict describe_param(const hr_param *param):
    return {
        "name": param.name.decode(),
        "dtype": DTYPES[param.dtype],
        "offset": param.offset,
        "length_offset": param.length_offset,
        "is_array": param.length_offset >= 0,
        "default": None if param.length_offset >= 0 else param.initial,
    }


cdef dict describe_env(const hr_env *env):
    return {
        "name": env.name.decode(),
        "source_hash": env.source_hash.decode(),
        "agents": env.agents,
        "max_steps": env.max_steps,
        "state_size": env.state_size,
        "params_size": env.params_size,
        "action_size": env.action_size,
        "obs_size": env.obs_size,
        "mask_size": env.mask_size,
        "metrics_size": env.metrics_size,
        "obs_fields": [describe_field(&env.obs_fields[i]) for i in range(env.obs_fields_count)],
        "action_fields": [
            describe_field(&env.action_fields[i]) for i in range(env.action_fields_count)
        ],
        "params": [describe_param(&env.param_list[i]) for i in range(env.params_count)],
        "metric_names": [env.metric_names[i].decode() for i in range(env.metrics_size)],
        "has_present": env.present != NULL,
        "has_mask": env.mask != NULL,
        "has_metrics": env.metrics != NULL,
        "has_draw": env.draw != NULL,
        "checked": env.failure != NULL,
    }


cdef str field_fault(const hr_field *field, int32_t size):
    """What is wrong with a field of a struct of `size` bytes; None when nothing is."""
    cdef int64_t bytes_, count = 1
    if field.name == NULL or not 0 <= field.dtype < len(DTYPES) or not 0 <= field.kind < 2:
        return "a field without name, or of unknown kind or dtype"
    if not 0 <= field.rank <= HR_MAX_RANK:
        return f"field {field.name.decode()} has {field.rank} dimensions, at most {HR_MAX_RANK}"
    for i in range(field.rank):
        if field.shape[i] < 1:
            return f"field {field.name.decode()} has a dimension of {field.shape[i]}"
        count *= field.shape[i]
    bytes_ = count * np.dtype(DTYPES[field.dtype]).itemsize
    if field.offset < 0 or field.offset + bytes_ > size:
        return f"field {field.name.decode()} lies outside its struct of {size} bytes"
    if field.kind == HR_KIND_DISCRETE and field.choices < 1:
        return f"field {field.name.decode()} has {field.choices} choices, at least 1 is needed"
    return None


cdef str env_fault(const hr_env *env):
    """Why this description cannot be used; None when it can."""
    cdef const hr_param *param
    if env.abi_version != HR_ABI_VERSION:
        return (f"it was built for version {env.abi_version} of the kernel ABI, "
                f"this is version {HR_ABI_VERSION}: build it again")
    if env.name == NULL or env.source_hash == NULL:
        return "it has no name or no source hash"
    if env.step == NULL or env.observe == NULL or env.reset == NULL:
        return "it lacks one of step, observe and reset"
    if not 1 <= env.agents <= MAX_AGENTS:
        return f"it has {env.agents} agents: 1 to {MAX_AGENTS} are possible"
    if env.state_size < 1 or env.action_size < 1 or env.obs_size < 1 or env.params_size < 0:
        return "State, Action and Obs must not be empty"
    if env.obs_fields_count < 1 or env.action_fields_count < 1:
        return "it declares no observation or no action"
    if env.max_steps < 0 or env.mask_size < 0 or env.metrics_size < 0 or env.params_count < 0:
        return "it has a negative size or time limit"
    if env.obs_fields == NULL or env.action_fields == NULL or (
            env.params_count > 0 and env.param_list == NULL):
        return "a list of fields or parameters is missing"
    if env.mask != NULL and env.mask_size == 0:
        return "it has a mask (.mask) but no discrete action to be masked: remove it"
    if env.mask == NULL and env.mask_size > 0:
        return f"its masks have {env.mask_size} bytes, but no function fills them: give it one"
    if env.metrics != NULL and env.metrics_size == 0:
        return "it has .metrics, but no names: add HR_METRICS(members of struct Metrics)"
    if env.metrics == NULL and env.metrics_size > 0:
        return "it names metrics (HR_METRICS), but no function fills them: add .metrics"
    if env.metrics_size > 0 and env.metric_names == NULL:
        return "the list of metric names is missing"
    for i in range(env.metrics_size):
        if env.metric_names[i] == NULL:
            return f"metric {i} has no name"
    for i in range(env.obs_fields_count):
        fault = field_fault(&env.obs_fields[i], env.obs_size)
        if fault is not None:
            return f"Obs: {fault}"
    for i in range(env.action_fields_count):
        fault = field_fault(&env.action_fields[i], env.action_size)
        if fault is not None:
            return f"Action: {fault}"
    for i in range(env.params_count):
        param = &env.param_list[i]
        if param.name == NULL or not 0 <= param.dtype < len(DTYPES) or param.offset < 0:
            return "Params: a member without name, of unknown dtype or at no place"
        is_array = param.length_offset >= 0
        size = sizeof(void *) if is_array else np.dtype(DTYPES[param.dtype]).itemsize
        if param.offset + size > env.params_size:
            return f"Params: {param.name.decode()} lies outside its struct"
        if is_array and param.length_offset + 4 > env.params_size:
            return f"Params: the length of {param.name.decode()} lies outside its struct"
    return None
