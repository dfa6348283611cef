"""Extraction over HTTP: what is said is understood at once, and the answer says what of it was learned (API-1)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from filrouge.core.errors import BadInput
from filrouge.extraction.service import Spoken, extract_now
from filrouge.server.access import elsewhere, parts_of
from filrouge.server.responses import Answer, answers
from filrouge.server.routes.memory import action_json
from filrouge.server.routes.turns import MessageBody

router = APIRouter(tags=["models"])
_LONGEST = 1_000_000


class ExtractBody(BaseModel):
    """What was said, and where."""

    messages: str | list[str | MessageBody] = Field(
        description="A text of the program's own, or messages with roles, oldest first. Labels in a text (`User:`)"
        " give nobody's words the user's trust.",
    )
    source: str = Field("", max_length=400, description="`agent/project`: through what, and in which project.")
    context: str = Field("", max_length=2000, description="On what occasion; noted, and nothing more.")

    def spoken(self) -> str | list[Spoken]:
        """The messages.

        Raises:
            BadInput: there are none, or too much of them, or one cannot be used.
        """
        if isinstance(self.messages, str):
            texts, found = [self.messages], self.messages
        else:
            texts = [one if isinstance(one, str) else one.content for one in self.messages]
            found = [one if isinstance(one, str) else one.message(place) for place, one in enumerate(self.messages)]
        if not found or (isinstance(found, str) and not found.strip()):
            raise BadInput("There is nothing to understand: messages is empty.")
        if (size := sum(map(len, texts))) > _LONGEST or len(texts) > 1000:
            raise BadInput(f"There are {len(texts)} messages with {size} characters; at most 1000 with {_LONGEST}.")
        return found


class ActionAnswer(Answer):
    """What a decision came to (`action_json`)."""

    action: str
    id: str
    superseded: list[str]
    reason: str
    review: str


class ExtractedAnswer(Answer):
    """Every decision in order, and how many statements were read, stored, replaced and withdrawn."""

    actions: list[ActionAnswer]
    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int


@router.post(
    "/memory/extract",
    responses=answers(
        ExtractedAnswer,
        example={
            "actions": [
                {
                    "action": "add",
                    "id": "01k0000000000000000000000a",
                    "superseded": [],
                    "reason": "nothing like it is known",
                    "review": "",
                }
            ],
            "extracted_count": 1,
            "stored_count": 1,
            "updated_count": 0,
            "deleted_count": 0,
        },
    ),
)
async def extract(body: ExtractBody, request: Request) -> dict[str, Any]:
    """Understand messages now. 501 where extraction is switched off; what this source said before is passed over."""
    parts, spoken = parts_of(request), body.spoken()
    done = await elsewhere(lambda: extract_now(parts, spoken, source=body.source, context=body.context))
    return {"actions": [action_json(action) for action in done.actions], **done.to_json()}
