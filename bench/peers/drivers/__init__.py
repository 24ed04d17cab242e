"""Programs that run inside a peer's own virtual environment, where headrace is not installed.

They may import `protocol`, `cartpole` and `...batches`, which need nothing but NumPy, and the
peer. `headrace bench peers` starts them (see ../driving.py).
"""
