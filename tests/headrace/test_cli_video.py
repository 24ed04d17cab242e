"""`headrace eval --video --frames` and the files that it writes."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace import images
from headrace.cli import main
from headrace.images import Gif, lzw, write_png


def ffmpeg() -> str:
    return pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()


def decoded(path: Path, height: int, width: int) -> np.ndarray:
    """The frames of a video, uint8 [frames, height, width, 3], as ffmpeg sees them."""
    command = [ffmpeg(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24"]
    done = subprocess.run([*command, "-fps_mode", "passthrough", "-"], capture_output=True)
    assert done.stderr == b""
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("video") / "run"
    headrace.train("cartpole", seed=1, run_dir=str(folder))
    return folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def expected_frames(run: Path, count: int) -> list[np.ndarray]:
    """The first frames of the evaluation's world 0, from its actions."""
    from headrace.recording import watch
    from headrace.trainers.agent import load_agent
    from headrace.trainers.evaluate import EvalConfig

    config = EvalConfig(run=str(run))
    agent = load_agent(config, 1, autoreset_mode="NextStep")
    return [frame for frame, _ in zip(watch(agent, config), range(count), strict=False)]


def test_an_mp4_is_what_browsers_play(run, capsys):
    executable = ffmpeg()
    argv = ["--episodes", "1", "--video", "out.mp4", "--video-seconds", "1", "--fps", "25"]
    assert main(["eval", str(run), "--json", *argv]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["video"], result["frames"], result["frame_count"]) == ("out.mp4", None, 25)
    told = subprocess.run([executable, "-i", "out.mp4"], capture_output=True, text=True).stderr
    assert "h264" in told
    assert "yuv420p" in told
    assert "600x400" in told
    assert "25 fps" in told
    data = Path("out.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # plays before all of it is there
    frames = decoded(Path("out.mp4"), 400, 600).astype(int)
    assert len(frames) == 25
    for frame, wanted in zip(frames, expected_frames(run, 25), strict=True):
        assert np.abs(frame - wanted).mean() < 3


def test_a_gif_shows_every_frame_exactly(run, capsys):
    argv = ["--episodes", "1", "--video", "out.gif", "--video-seconds", "1", "--fps", "20"]
    assert main(["eval", str(run), *argv]) == 0
    assert "out.gif" in capsys.readouterr().out
    frames = decoded(Path("out.gif"), 400, 600)
    wanted = expected_frames(run, 20)
    assert len(frames) == 20
    assert all((frame == each).all() for frame, each in zip(frames, wanted, strict=True))


def test_frames_are_png_images_and_end_with_the_last_episode(run, capsys):
    assert main(["eval", str(run), "--episodes", "1", "--frames", "images", "--json",
                 "--video-seconds", "1000"]) == 0  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    files = sorted(Path("images").iterdir())
    assert result["frame_count"] == len(files) == int(result["length_mean"]) + 1
    wanted = expected_frames(run, len(files))
    for at in (0, 7, len(files) - 1):
        assert files[at].name == f"{at:05}.png"
        assert (png(files[at]) == wanted[at]).all()


def test_mistakes_are_one_sentence_before_anything_is_played(run, capsys, monkeypatch):
    def complaint(*argv: str) -> str:
        assert main(["eval", str(run), *argv]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err

    assert "must end in .mp4 or .gif" in complaint("--video", "out.avi")
    assert "there is no folder 'none'" in complaint("--video", "none/out.gif")
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    assert "pip install 'headrace[video]'" in complaint("--video", "out.mp4")


def test_an_environment_without_draw_cannot_be_recorded(tmp_path, capsys):
    catch = Path(__file__).parents[2] / "examples" / "catch.c"
    assert main(["train", str(catch), "--run-dir", "blind", "--steps", "20_000", "--quiet"]) == 0
    assert main(["eval", "blind", "--video", "out.gif"]) == 1
    assert "it has no draw function" in capsys.readouterr().err


# ---- files ------------------------------------------------------------------------------


def png(path: Path) -> np.ndarray:
    """A PNG image of the kind that write_png writes, decoded; its checksums are verified."""
    data, at, parts = path.read_bytes(), 8, {}
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length :][:4])[0] == zlib.crc32(kind + body)
        parts[kind] = body
        at += 12 + length
    width, height, depth, color = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, color) == (8, 2)
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, -1)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 3)


def test_a_png_holds_every_pixel(tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)
    write_png(tmp_path / "a.png", frame)
    assert (png(tmp_path / "a.png") == frame).all()


def unlzw(data: bytes, bits: int) -> list[int]:
    """A decoder of GIF's LZW, written from the specification."""
    clear, end = 1 << bits, (1 << bits) + 1
    stream = int.from_bytes(data, "little")
    table: list[tuple[int, ...]] = []
    width, out, before = bits + 1, [], None
    while True:
        code = stream & ((1 << width) - 1)
        stream >>= width
        if code == clear:
            table = [(i,) for i in range(clear)] + [(), ()]
            width, before = bits + 1, None
            continue
        if code == end:
            return out
        entry = table[code] if code < len(table) else (*before, before[0])
        if before is not None and len(table) < 4096:
            table.append((*before, entry[0]))
        if len(table) == 1 << width and width < 12:
            width += 1
        out += entry
        before = entry


@pytest.mark.parametrize("bits", [2, 3, 8])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 255, 4000, 30_000])
def test_lzw_is_what_decoders_expect(bits, length):
    rng = np.random.default_rng(length)
    for pixels in (rng.integers(0, 1 << bits, length), np.zeros(length, int)):
        assert unlzw(lzw(pixels.tolist(), bits), bits) == pixels.tolist()


def test_a_gif_of_many_colours_keeps_their_high_bits(tmp_path):
    frame = np.random.default_rng(0).integers(0, 256, (60, 90, 3)).astype(np.uint8)
    with Gif(tmp_path / "n.gif", 25) as gif:
        gif.add(frame)
    assert (decoded(tmp_path / "n.gif", 60, 90)[0] == frame & [0xE0, 0xE0, 0xC0]).all()


def test_a_fast_gif_leaves_frames_out(tmp_path):
    frames = [np.full((4, 4, 3), shade, np.uint8) for shade in range(0, 200, 10)]
    with Gif(tmp_path / "f.gif", 100) as gif:
        for frame in frames:
            gif.add(frame)
    shown = decoded(tmp_path / "f.gif", 4, 4)
    assert [int(frame[0, 0, 0]) for frame in shown] == list(range(0, 200, 40))
