"""All arms of a run, opened: our runtime with one or more policies, and clients of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace

from agentrt.analysis.model_shape import shape_in
from agentrt.base.cpu_cores import cores
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS, Arm, ArmProcess
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.plan_search import PlanSearch
from agentrt.lab.arms.program_arm import CLIENTS, client_arm, runtime_arm
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.server_process import ServerProcess
from agentrt.lab.arms.servers import OUR_SERVERS, SERVERS, search_of
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.best_plan import open_best, tried_plans
from agentrt.lab.bench.compound.features import OwnArm
from agentrt.lab.bench.compound.play_log import PlayLog
from agentrt.lab.bench.compound.prompt_parity import chats_in, check_prompt_parity
from agentrt.lab.bench.compound.server_efficiency import LEAST_EFFICIENCY, measure_efficiency
from agentrt.lab.checkpoints.shapes import is_large
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log
from agentrt.lab.result_file import short_paths
from agentrt.prompt import Codec

PLAIN = f"{OURS}:plain"
"""Name of our arm without drafts, beside the one with them."""

ARMS = (OURS, PLAIN, *(f"{client}+{server}" for client in CLIENTS for server in SERVERS))
_FEW, _MANY = 8, 32  # requests at once, with which a server's efficiency is measured


@record
class ArmsConfig:
    """The arms of a run.

    Attributes:
        names: Names of all arms: keys of `ours`, and clients with servers.
        ours: Settings of our own arms by name.
        served: The model and memory of all arms.
        threads: Threads of our engine; 0 lets it choose.
        files: Files of the peers.
        quick: True to take each server's first plan and not to measure its efficiency.
        drafts: True if servers may guess tokens.
    """

    names: tuple[str, ...]
    ours: Mapping[str, OwnArm]
    served: Served
    threads: int
    files: PeerFiles
    quick: bool = False
    drafts: bool = False

    def only(self, names: Sequence[str]) -> ArmsConfig:
        """The same with some of the arms."""
        return replace(self, names=tuple(name for name in self.names if name in names))


def our_names(policies: Sequence[str]) -> dict[str, str]:
    """Names of our own arms, and the policy of each."""
    return {OURS if len(policies) == 1 else f"{OURS}:{policy}": policy for policy in policies}


def open_arms(
    config: ArmsConfig, probe: Sequence[ProgramLine], stack: ExitStack, plays: PlayLog
) -> dict[str, ArmProcess]:
    """Start all arms; a server that is slower than its own engine is left out.

    Args:
        config: The arms.
        probe: Programs by which a server's plan is chosen.
        stack: Closes the arms.
        plays: Log that takes what the arms are; a server that was chosen in an earlier part is
            started in the same way.

    Returns:
        Processes by name of the arm.

    Raises:
        BenchFailed: An arm does not work, or none is left.
        UsageError: An arm is not configured as in earlier parts.
    """
    opened = _OpenArms(config, probe, stack, plays)
    for name in config.names:
        if plays.reaches.get(name.partition("+")[2], {}).get("refused"):
            log(f"{name} is left out: in an earlier part its server was refused")
        else:
            opened.open(name)
    for kind, server in opened.servers.items() if not config.quick else ():
        opened.check_efficiency(kind, server)
    if not opened.arms:
        raise BenchFailed("no arm is left to measure", hint="Add agentrt to --arms")
    return opened.arms


class _OpenArms:
    """Arms that run, and their servers."""

    def __init__(
        self, config: ArmsConfig, probe: Sequence[ProgramLine], stack: ExitStack, plays: PlayLog
    ) -> None:
        self._config, self._probe, self._stack, self._plays = config, probe, stack, plays
        self.servers: dict[str, ServerProcess] = {}
        self.arms: dict[str, ArmProcess] = {}

    def open(self, name: str) -> None:
        """Open an arm, with its server if it has one."""
        config = self._config
        if name in config.ours:
            log(f"starting {name}")
            self._start(name, self._own(config.ours[name]))
        else:
            client, _, kind = name.partition("+")
            server = self._server(kind)
            self._start(name, client_arm(client, server.plan, config.files), server)

    def check_efficiency(self, kind: str, server: ServerProcess) -> None:
        """Leave out the arms of a server that is slower than its own engine.

        Our own server is measured and never refused: it shows what our runtime adds.
        """
        if kind in self._plays.reaches:
            return
        served = self._config.served
        names = [name for name in self.arms if name.endswith(f"+{kind}")]
        # A large model takes long for many requests at once, so few of them are measured well.
        batch, repeats = (_FEW, 3) if is_large(shape_in(served.model)) else (_MANY, 5)
        found = measure_efficiency(
            self.arms[names[0]],
            server.plan,
            served,
            self._config.files,
            batch=min(served.slots, batch),
            repeats=repeats,
        )
        refused = kind not in OUR_SERVERS and not found.holds
        self._plays.reaches[kind] = {**asdict(found), "share": found.share, "refused": refused}
        log(f"{server.plan.name} reaches {found.share:.0%} of its engine's own rate")
        if refused:
            log(f"nothing is compared below {LEAST_EFFICIENCY:.0%}: left out {', '.join(names)}")
            for name in names:
                self.arms.pop(name).close()

    def _own(self, own: OwnArm) -> Arm:
        return runtime_arm(
            self._config.served,
            own.scheduler,
            threads=self._config.threads,
            engine=own.engine,
            options=own.play,
        )

    def _start(self, name: str, arm: Arm, server: ServerProcess | None = None) -> None:
        config = short_paths(
            {
                "settings": arm.settings,
                "env": {key: value for key, value in arm.env.items() if "KEY" not in key},
                "server": None if server is None else server.about,
            }
        )
        self._plays.check_arm(name, config)
        process = self.arms[name] = ArmProcess(arm, server=server)
        self._stack.callback(process.close)
        self._plays.arms[name] = {"config": config, "about": short_paths(process.about)}

    def _server(self, kind: str) -> ServerProcess:
        """The best server of a kind, if it tokenizes chats as we do."""
        if kind in self.servers:
            return self.servers[kind]
        config, choices = self._config, self._plays.choices
        search = search_of(kind, config.served, config.files, cores=cores())
        if kind in choices:  # an earlier part has tried them
            kept = choices[kind]["kept"]
            plan = search.named(kept)
            if plan is None:
                raise UsageError(
                    f"earlier plays had {kind} {kept}, which is no plan now",
                    hint="Measure into another file",
                )
            search = PlanSearch((plan,))
        elif config.quick:
            search = PlanSearch(search.plans[:1])
        elif not config.drafts:
            search = search.without_drafts()
        server, tried = open_best(search, self._probe, config.files)
        self._stack.callback(server.close)
        choices.setdefault(kind, {"kept": server.plan.variant, "tried": tried_plans(tried)})
        check_prompt_parity(server, Codec.load(config.served.model), chats_in(self._probe, 2))
        self.servers[kind] = server
        return server
