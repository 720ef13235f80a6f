"""Items of orders, of which one or several may be named."""


def same_item(said: str, wanted: str) -> bool:
    """Whether two names are of one item: "desk lamp" and "desk lamps" are."""
    return said.casefold().removesuffix("s") == wanted.casefold().removesuffix("s")
