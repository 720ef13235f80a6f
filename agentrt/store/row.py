"""One learned quantity as plain data, to keep, to show and to merge."""

from __future__ import annotations

from agentrt.fact import fact

Key = tuple[str, str, int | None, str]


@fact
class Row:
    """One learned quantity of one place.

    Attributes:
        template: The program that was started; "" with `site` "" is the place above all.
        site: Call site, or "" for the template as a whole.
        depth: At which depth of the run, or None for any.
        quantity: Its name, or `next` for what followed: a sum `next:SITE` for each site.
        count: Observations ever.
        sums: Linear in the observations; each observation weighs earlier ones by one factor.
    """

    template: str
    site: str
    depth: int | None
    quantity: str
    count: int
    sums: dict[str, float]

    @property
    def key(self) -> Key:
        """What it is of."""
        return (self.template, self.site, self.depth, self.quantity)


def merged(stored: Row, base: Row | None, mine: Row, decay: float) -> Row:
    """What two processes learned apart, as if this one had learned after the other.

    Args:
        stored: What is kept now; the other process has changed it.
        base: What was kept when this process began; None when nothing was.
        mine: What came of that here.
        decay: By which an observation weighs earlier ones.
    """
    news = mine.count - (base.count if base is not None else 0)
    faded = decay**news
    before = base.sums if base is not None else {}
    names = {*stored.sums, *mine.sums, *before}
    sums = {
        name: stored.sums.get(name, 0.0) * faded
        + mine.sums.get(name, 0.0)
        - before.get(name, 0.0) * faded
        for name in names
    }
    return Row(mine.template, mine.site, mine.depth, mine.quantity, stored.count + news, sums)
