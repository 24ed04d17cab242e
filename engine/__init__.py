"""Steps environments: from an author's file to a batch of worlds in one block of memory.

In the order in which a call passes through them:

    make, resolve, registration   a name or a file becomes a loaded environment
    compile, cython_env           ... by way of the C compiler and a cache
    numba, frame                  ... or by way of Numba; drawing from Python
    spec, describing              what the environment says of itself, as spaces and dtypes
    buffers, sharedblock, memory  every array of a batch, plain or in shared memory
    vector, single                Gymnasium's interfaces over it
    _core                         the native part: thread pool, step of a batch, worlds in flight
    cpus, cgroup                  what this process may use of the machine

Nothing is imported here: `import headrace` stays quick.
"""
