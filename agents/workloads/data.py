"""Data sets that are generated, not downloaded, and that a small model can learn within a hundred steps or two.

Decides what the pictures, the sounds and the text look like. The same seed gives the same data, to the bit, so that a
resumed training reads what the interrupted one read.
"""

import math
import random
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

NUM_CLASSES = 10
SAMPLES_PER_S = 8000.0
ALPHABET = "\n abcdefghijklmnopqrstuvwxyz.,"


class DataSet(Protocol):
    """Rows that are read in batches."""

    @property
    def num_rows(self) -> int:
        """Rows to train on, numbered from 0."""

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some rows."""

    def held_out(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets that training never sees."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Examples with one label each, the last ``num_held_out`` of them for evaluation.

    Attributes:
        examples: (num_examples, ...), zero mean, about unit variance.
        labels: (num_examples,), 0 to ``NUM_CLASSES`` - 1.
    """

    examples: Tensor
    labels: Tensor
    num_held_out: int

    @property
    def num_rows(self) -> int:
        return len(self.labels) - self.num_held_out

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.examples[rows], self.labels[rows]

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.examples[-self.num_held_out :], self.labels[-self.num_held_out :]


@dataclass(frozen=True, slots=True)
class Text:
    """A text cut into windows; the target of each character is the next one.

    Attributes:
        codes: (num_characters,) indexes into ``ALPHABET``.
        window: Characters of one example.
        num_held_out: Windows kept for evaluation, from the end of the text.
    """

    codes: Tensor
    window: int
    num_held_out: int

    @property
    def num_rows(self) -> int:
        return (len(self.codes) - 1) // self.window - self.num_held_out

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        places = rows[:, None] * self.window + torch.arange(self.window)
        return self.codes[places], self.codes[places + 1]

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.batch(torch.arange(self.num_rows, self.num_rows + self.num_held_out))


def generated_images(*, num_images: int, size_px: int, seed: int) -> Labelled:
    """Return striped pictures, (num_images, 3, size_px, size_px): five directions times two widths of the stripes.

    Place, colour and strength of the stripes and the noise over them say nothing about the class.
    """
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(NUM_CLASSES, (num_images,), generator=chance)
    angle = (labels % 5) * (math.pi / 5)
    waves = 3.0 + 3.0 * (labels // 5)
    line = torch.linspace(-0.5, 0.5, size_px)
    across = angle.cos()[:, None, None] * line[:, None] + angle.sin()[:, None, None] * line[None, :]
    phase = 2 * math.pi * torch.rand(num_images, 1, 1, generator=chance)
    stripes = torch.sin(2 * math.pi * waves[:, None, None] * across + phase)
    colour = 0.5 + torch.rand(num_images, 3, 1, 1, generator=chance)
    noise = torch.randn(num_images, 3, size_px, size_px, generator=chance)
    return Labelled(colour * stripes[:, None] + 1.5 * noise, labels, num_images // 8)


def generated_sounds(*, num_sounds: int, num_samples: int, seed: int) -> Labelled:
    """Return waves, (num_sounds, 1, num_samples) at 8 kHz: five kinds of sound, each low and high.

    The kinds are a tone, a rising and a falling chirp, a trembling tone and a square wave.
    """
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(NUM_CLASSES, (num_sounds,), generator=chance)
    waves = torch.empty(num_sounds, 1, num_samples)
    for first in range(0, num_sounds, 64):  # piece by piece, for the sake of memory
        some = labels[first : first + 64]
        waves[first : first + 64, 0] = _sounds(some, num_samples=num_samples, chance=chance)
    return Labelled(waves, labels, num_sounds // 8)


def _sounds(labels: Tensor, *, num_samples: int, chance: torch.Generator) -> Tensor:
    kind, high = (labels % 5)[:, None], (labels // 5)[:, None]
    time_s = torch.arange(num_samples) / SAMPLES_PER_S
    length_s = num_samples / SAMPLES_PER_S
    pitch_hz = (250.0 + 650.0 * high) * (0.9 + 0.2 * torch.rand(len(labels), 1, generator=chance))
    slope = torch.where(kind == 1, 1.0, 0.0) - torch.where(kind == 2, 0.5, 0.0)
    turns = pitch_hz * (time_s + slope * time_s**2 / (2 * length_s)) + torch.rand(len(labels), 1, generator=chance)
    wave = torch.sin(2 * math.pi * turns)
    trembling = wave * (1 + torch.sin(2 * math.pi * 40.0 * time_s))
    wave = torch.where(kind == 3, trembling, torch.where(kind == 4, wave.sign(), wave))
    loudness = 0.5 + torch.rand(len(labels), 1, generator=chance)
    return loudness * wave + 2.0 * torch.randn(len(labels), num_samples, generator=chance)


def generated_text(*, num_characters: int, window: int, seed: int) -> Text:
    """Return sentences of a small grammar, in which articles and verbs agree with their nouns."""
    chance = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length <= num_characters:
        parts.append(_sentence(chance))
        length += len(parts[-1])
    place = {character: index for index, character in enumerate(ALPHABET)}
    codes = torch.tensor([place[character] for character in "".join(parts)])
    num_windows = (len(codes) - 1) // window
    return Text(codes, window, num_windows // 8)


ADJECTIVES = ("small", "old", "quick", "silent", "golden", "hungry")
NOUNS = ("dog", "cat", "river", "teacher", "garden", "machine", "robot", "train")
VERBS = ("follow", "hear", "find", "remember", "paint", "need")
PLACES = ("in the morning", "under the bridge", "near the harbour", "after the rain")


def _sentence(chance: random.Random) -> str:
    many = chance.random() < 0.5
    verb = chance.choice(VERBS) + ("" if many else "s")
    words = [_noun_phrase(chance, many=many), verb, _noun_phrase(chance, many=chance.random() < 0.5)]
    if chance.random() < 0.4:
        words.append(chance.choice(PLACES))
    if chance.random() < 0.3:
        words[-1] += ","
        words.append("and " + _noun_phrase(chance, many=True) + " sleep")
    return " ".join(words) + ".\n"


def _noun_phrase(chance: random.Random, *, many: bool) -> str:
    article = chance.choice(("the", "some", "two")) if many else chance.choice(("the", "a", "every"))
    adjective = [chance.choice(ADJECTIVES)] if chance.random() < 0.5 else []
    noun = chance.choice(NOUNS) + ("s" if many else "")
    if article == "a" and adjective and adjective[0][0] in "aeiou":
        article = "an"
    return " ".join([article, *adjective, noun])
