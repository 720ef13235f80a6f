"""Many engines at once, by rates instead of steps: for fleets.

During a tick every engine has a rate at which it decodes and one at which it computes prompts, both
by the same costs as single steps. `library` makes arrays of programs, `fleet` advances all of them
together, `routing` chooses engines, `compare` compares the results with the step mode.
"""
