"""Bodies of requests and forms of answers, as the OpenAPI schema describes them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictFloat, StrictInt, StrictStr
from typing_extensions import TypedDict  # that of Python 3.11 is not enough for pydantic

from spherec.recommender.trained_model import UnknownUser

ExternalId = StrictStr | StrictInt
"""Id of a user or an item, as the model has it, or as text."""

ColumnValue = StrictBool | StrictStr | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)]
"""Value of a column of the item table."""

ColumnRange = Annotated[
    dict[Literal["<", "<=", ">", ">="], StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)] | StrictStr],
    Field(min_length=1, max_length=2),
]
"""Bounds of the values of a column: {"<": 20}."""

MOST_REASONS = 20
"""Largest number of reasons for each item."""

MOST_IDS = 10_000
"""Largest number of ids in a field."""

ExternalIds = Annotated[list[ExternalId], Field(max_length=MOST_IDS)]
"""Ids of users or items."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListBody(_Body):
    """Lengths and filters of lists."""

    k: StrictInt = Field(default=10, ge=1, description="Length of each list.")
    offset: StrictInt = Field(default=0, ge=0, description="Items to skip at the top of each list.")
    only: ExternalIds | None = Field(
        default=None, description="The only items that may be listed. Ids that the model does not know are skipped."
    )
    exclude: ExternalIds = Field(default=[], description="Items that must not be listed. Unknown ids are skipped.")
    filter: dict[str, ColumnValue | list[ColumnValue] | ColumnRange] = Field(
        default={},
        description='Columns of the item table: a value that items must have, a list of which they have one, or {"<": '
        "20}: a range.",
    )
    diversity: float = Field(
        default=0.0, ge=0, le=1, description="Distance of the items of a list from each other; 0 lists the nearest."
    )


class SimilarBody(ListBody):
    """Items near an item that are wanted."""

    item: ExternalId = Field(description="The item.")


class RecommendBody(ListBody):
    """Lists that are wanted: one for each user, one for the new user, one for each vector."""

    users: ExternalIds = Field(default=[], description="Users whom the model knows.")
    items: ExternalIds | None = Field(
        default=None, description="Items of one new user; with none, the most popular items are listed."
    )
    vectors: list[list[FiniteFloat]] = Field(
        default=[], description="Places in the space, with as many numbers as it has."
    )
    exclude_seen: StrictBool = Field(default=True, description="Leave out the items that the user has.")
    mainstream: FiniteFloat | None = Field(
        default=None,
        description="Share of popularity that counts, for a model with reach: 1 most, 0 none, below 0 less.",
    )
    explain: Annotated[StrictInt, Field(ge=0, le=MOST_REASONS)] | StrictBool = Field(
        default=False, description="Reasons for each item: how many, or true for 3."
    )
    unknown: UnknownUser = Field(
        default="error",
        description="Treatment of ids that the model does not know; popular lists the most popular items for them.",
    )


class ScoreBody(_Body):
    """Pairs to score: as many users as items, or one of them single."""

    users: ExternalIds = Field(min_length=1, description="Users.")
    items: ExternalIds = Field(min_length=1, description="Items.")
    mainstream: FiniteFloat | None = Field(default=None, description="As in /recommend.")


class NewItem(_Body):
    """An item that nobody has yet."""

    id: ExternalId = Field(description="Its id, which no item has.")
    name: StrictStr | None = Field(default=None, description="Name of the item.")
    features: dict[str, Any] = Field(description="Cells of the columns that the model was trained with.")


class AddBody(_Body):
    """Items to add."""

    items: list[NewItem] = Field(min_length=1, max_length=MOST_IDS, description="The items.")


class NewEvent(_Body):
    """Something that a user did with an item; the model need not know either."""

    user: ExternalId = Field(description="The user.")
    item: ExternalId = Field(description="The item.")
    kind: StrictStr | None = Field(default=None, max_length=200, description="Kind of the event, such as purchase.")
    time: float | None = Field(
        default=None, ge=0, le=1e11, allow_inf_nan=False, description="Seconds since 1970; by default now."
    )


class EventsBody(_Body):
    """Events to store."""

    events: list[NewEvent] = Field(min_length=1, max_length=MOST_IDS, description="The events.")


class ItemName(TypedDict):
    """An item."""

    id: str | int
    name: str | None


class ScoredItem(ItemName):
    """An item and how near it is."""

    score: float


class ListedItem(ScoredItem):
    """An item of a list; `because` has the user's own items that are nearest to it, if they were asked for."""

    because: NotRequired[Sequence[ScoredItem]]


class CountedItem(ItemName):
    """An item and how many users have it."""

    users: int


class ItemDetails(CountedItem):
    """All that is known about an item."""

    reach: float | None
    columns: dict[str, Any]


class CountedUser(TypedDict):
    """A user and how many items they have."""

    id: str | int
    items: int


class UserList(TypedDict):
    """The list of a user; `user` is null for new users and vectors."""

    user: str | int | None
    items: list[ListedItem]
    fallback: Annotated[Literal["popular"] | None, Field(description="Not null if nothing is known of the user.")]


class _Answer(TypedDict):
    model: Annotated[str, Field(description="Checksum of the model that answered.")]


class _FilteredAnswer(_Answer):
    skipped: Annotated[int, Field(description="Number of ids of only and exclude that the model does not know.")]


class RecommendAnswer(_FilteredAnswer):
    """Lists, in the order: users, the new user, vectors."""

    lists: list[UserList]


class UserAnswer(_Answer, UserList):
    """The list of one user."""


class SimilarAnswer(_FilteredAnswer):
    """Items near an item."""

    item: ItemName
    items: Sequence[ScoredItem]


class ExplainAnswer(_Answer):
    """The user's own items that are nearest to an item."""

    user: str | int
    item: ItemName
    score: float
    because: Sequence[ScoredItem]


class ScoreAnswer(_Answer):
    """A score for each pair."""

    scores: list[float]


class SearchAnswer(_Answer):
    """Items and users that match."""

    items: list[CountedItem]
    users: list[CountedUser]


class ItemAnswer(_Answer):
    """An item."""

    item: ItemDetails


class HistoryAnswer(_Answer):
    """A user and the items they have, most popular first."""

    user: CountedUser
    items: list[CountedItem]


class ModelAnswer(_Answer):
    """The model in use, and the limits of requests."""

    file: str
    version: str
    users: int
    items: int
    pairs: int
    dim: int
    constraint: Literal["sphere", "ball"]
    reach: bool
    mainstream: float | None
    index: bool
    columns: dict[str, int]
    loaded: str
    limits: dict[str, int]


class AddAnswer(_Answer):
    """The checksum of the new model, and what of the features it does not know: how much of each kind was ignored."""

    added: int
    ignored: dict[str, int]


class EventsAnswer(_Answer):
    """The number of events that are stored now."""

    stored: int


class Health(TypedDict):
    """State of the server."""

    status: Literal["ok"]


class Problem(TypedDict):
    """An error, in one sentence."""

    error: str
    request_id: str
