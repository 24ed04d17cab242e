"""What the first steps of each shipped environment come to: see trajectory.py.

Written by tools/record_trajectories.py.
"""

TRAJECTORIES: dict[str, tuple[str, str]] = {
    "acrobot": ("e776934e55eddf5a", "7276a30bf3914034"),
    "breakout": ("713103446e7f70f6", "4d2276454f0c76f0"),
    "cartpole": ("191020d687468062", "d1671bae949d7ca9"),
    "connect4": ("62ba1733f46344a8", "a4d936751f8e2ecb"),
    "foraging": ("ee6710f15bacad44", "3faf81aaa68badad"),
    "game_2048": ("d7babd60374ce887", "5e5bd03f6481b375"),
    "inventory": ("9e32bc1c2b95bd29", "c374b86dd2856459"),
    "lander": ("82b0bd4303b541c0", "a88db9a3d6c6bbbc"),
    "maze": ("c857011d6d6237ba", "02a54957560d9f90"),
    "memory": ("af1169634d8e286f", "69ed18e600becddf"),
    "mountain_car": ("d11c9c56c376f5a9", "f1413fe6cdc68245"),
    "mountain_car_continuous": ("1c0ff72291cc6ef9", "e735545fc5aa5582"),
    "pendulum": ("fff4f67695aa8343", "aaef818a9d1fabb1"),
    "pong": ("e8f6e35889eba4e4", "bec6a9b64dc39d63"),
    "snake": ("ae3015db2426b97b", "c102ce8bf47f196b"),
    "squared": ("bd42eb2a36364047", "96e9a81f0d6249eb"),
    "tetris": ("871e253f272296b8", "b73d06e7324a18a4"),
}
