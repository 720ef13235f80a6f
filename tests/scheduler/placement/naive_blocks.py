"""The blocks of a worker as a set of prefixes: slow, and simple enough to be right."""

from agentrt.scheduler.placement.held_blocks import BlockHash


class NaiveCache:
    """An engine's cache: prefixes of whole blocks, each with the name that the engine gives it."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.held: set[tuple[int, ...]] = set()

    def name(self, prefix: tuple[int, ...]) -> BlockHash:
        """Some name that is the same for the same tokens alone."""
        return hash(prefix) if len(prefix) % 2 else repr(prefix).encode()

    def found(self, prompt: tuple[int, ...]) -> int:
        """Tokens of a prompt whose blocks are held, from its beginning on."""
        end = 0
        while end + self.block_tokens <= len(prompt):
            if prompt[: end + self.block_tokens] not in self.held:
                break
            end += self.block_tokens
        return end
