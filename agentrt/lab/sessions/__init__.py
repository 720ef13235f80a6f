"""Sessions of agents, recorded and drawn, played on engines: cached tokens, latency by turn, SLOs.

`recorded` reads public recordings, `workloads/session_draw` draws sessions of a published shape.
`http_arm` plays them on any server of chat completions, `program_arm` as programs of this package.
"""
