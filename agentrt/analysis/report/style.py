"""Style of the report: light and dark, wide and narrow, screen and paper."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentrt.analysis.stage import Label

LIGHT: Mapping[Label, tuple[str, str]] = {
    "admission": ("#6b7280", "#fff"),
    "cache": ("#8a93a5", "#111"),
    "queue": ("#a3a9b5", "#111"),
    "kv_reload": ("#8f74cf", "#111"),
    "prefill": ("#56b4e9", "#111"),
    "decode": ("#0072b2", "#fff"),
    "constraint": ("#cc79a7", "#111"),
    "tool": ("#e69f00", "#111"),
    "orchestration": ("#009e73", "#111"),
    "network": ("#d55e00", "#111"),
    "unattributed": ("#c9c4b8", "#111"),
}
"""Colour of each label, after Okabe and Ito, and of text on it."""

DARK: Mapping[Label, str] = {
    "admission": "#aeb4c0",
    "cache": "#94a0b8",
    "queue": "#7d8593",
    "kv_reload": "#b39ae8",
    "prefill": "#9bd6f7",
    "decode": "#3c9bdb",
    "constraint": "#e09ac2",
    "tool": "#f0b43c",
    "orchestration": "#35bd92",
    "network": "#f0813f",
    "unattributed": "#6f6b62",
}
"""Colour of each label on a dark page; text on it is black."""


def style() -> str:
    """The whole style, behind that of all pages."""
    colours = "".join(f"--{one}:{colour};--on-{one}:{on};" for one, (colour, on) in LIGHT.items())
    dark = "".join(f"--{one}:{colour};--on-{one}:#111;" for one, colour in DARK.items())
    classes = "".join(
        f".s-{one}{{fill:var(--{one})}}"
        f".b-{one}{{background-color:var(--{one});color:var(--on-{one})}}"
        for one in LIGHT
    )
    return (
        f":root{{{colours}--good:#0a6b49;--bad:#b3261e;--warn:#7a4d00;--path:#1d1f24;--bar:#4a5261}}"
        f"@media(prefers-color-scheme:dark){{:root{{{dark}"
        "--good:#5fd3a5;--bad:#ff9188;--warn:#f0c06b;--path:#f4f2ed;--bar:#a7aebb}}"
        f"{classes}{files(__package__).joinpath('style.css').read_text('utf-8')}"
    )
