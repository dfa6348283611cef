"""Gives a thought what it asks for: a model's answers, similarities of texts, memories near a statement."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from filrouge.app.informing import Judge
from filrouge.app.meaning import Meaning
from filrouge.app.parts import Parts
from filrouge.app.understanding import neighbours, vectors_at_once
from filrouge.clock import monotonic
from filrouge.config import Settings
from filrouge.errors import ModelUnavailable, Unreadable
from filrouge.extraction.model_answers import Candidate, Near, Need, Similar
from filrouge.extraction.tool_output import Informed, informed, judging_output
from filrouge.model.asking import Ask, Completion
from filrouge.model.decision import Neighbour
from filrouge.ports import Tx, Vectors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answering:
    """Gives a thought what it asks for."""

    parts: Parts
    meaning: Meaning
    settings: Settings

    def run(self, thought: Generator[Need, Any, T]) -> T:
        """Carry a thought to its end; what cannot be had is thrown into it, where it stands."""
        answer: object = None
        failure: Exception | None = None
        try:
            while True:
                need = thought.send(answer) if failure is None else thought.throw(failure)
                answer, failure = None, None
                try:
                    answer = self._answer(need)
                except (ModelUnavailable, Unreadable) as error:
                    failure = error
        except StopIteration as end:
            return end.value

    def judge(self, language: str) -> Judge:
        """Who weighs the output of tools: the model in heavy and max mode, a question each; else the rules."""

        def by_model(text: str) -> Informed:
            try:
                return self.run(judging_output(text, self.parts.models.prompts, language))
            except (ModelUnavailable, Unreadable):
                return informed(text)

        return by_model if self.settings.mode in ("heavy", "max") else informed

    def _answer(self, need: Need) -> Completion | tuple[float, ...] | tuple[Sequence[Neighbour], ...]:
        match need:
            case Ask():
                return self._asked(need)
            case Similar(pairs=pairs):
                return self._similarities(pairs)
            case Near(candidates=candidates):
                vectors = vectors_at_once(self.meaning, [one.statement.text for one in candidates])
                return self.parts.readers.here(lambda tx: self._near(tx, candidates, vectors))

    def _asked(self, ask: Ask) -> Completion:
        meters, begun = self.parts.meters, monotonic()
        try:
            done = self.parts.models.ask(ask, self.settings)
        except ModelUnavailable as error:
            meters.spent(ask.operation, error.spent)
            meters.analysis_failed(self.settings.extract_provider, error)
            raise
        meters.spent(ask.operation, done.spent)
        meters.analysed(done.provider, monotonic() - begun)
        return done

    def _similarities(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, ...]:
        vectors = vectors_at_once(self.meaning, [text for pair in pairs for text in pair])
        space = self.meaning.space
        return tuple(
            space.calibrated(float(np.max(one @ other.T))) if one is not None and other is not None else 0.0
            for one, other in zip(vectors[::2], vectors[1::2], strict=True)
        )

    def _near(
        self, tx: Tx, candidates: Sequence[Candidate], vectors: Sequence[Vectors | None]
    ) -> tuple[Sequence[Neighbour], ...]:
        return tuple(
            neighbours(self.parts, tx, one.turn, self.meaning, one.statement, own, {})
            for one, own in zip(candidates, vectors, strict=True)
        )
