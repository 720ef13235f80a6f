"""Many engines at once, by rates instead of steps: for fleets.

Between two looks at the clock every engine has a rate at which it decodes and one at which it
computes prompts, both by the same costs as single steps. `library` makes arrays of programs,
`fleet` moves all of them on together, `routing` chooses engines, `compare` holds it against the
step mode.
"""
