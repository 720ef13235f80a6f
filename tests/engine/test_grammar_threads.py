"""Threads that fill masks: the stuck ones are replaced, whatever has become of their requests."""

from threading import Event, get_ident

from agentrt.engine.sampling.grammar_threads import MAX_ABANDONED, GrammarThreads

LIMIT_S = 60.0


def stuck_thread():
    """Threads of which the only one is filling, its masks, and the event that lets it go on."""
    threads = GrammarThreads(1, "masks")
    begun, goes_on = Event(), Event()

    def fill():
        begun.set()
        return goes_on.wait(LIMIT_S)

    masks = threads.submit(fill)
    assert begun.wait(LIMIT_S)
    return threads, masks, goes_on


def test_a_stuck_thread_is_replaced_and_ends_with_its_masks():
    threads, first, goes_on = stuck_thread()
    second = threads.submit(get_ident)
    threads.replace_stuck(LIMIT_S)
    assert not second.done()
    threads.replace_stuck(0.0)
    replacement = second.result(LIMIT_S)
    threads.replace_stuck(0.0)

    goes_on.set()
    assert first.result(LIMIT_S)
    later = [threads.submit(get_ident) for _ in range(20)]
    assert {one.result(LIMIT_S) for one in later} == {replacement}
    threads.close()


def test_masks_that_wait_for_a_thread_do_not_take_long():
    threads, first, goes_on = stuck_thread()
    second = threads.submit(lambda: 7)
    assert first.takes_longer(0.0)
    assert not second.takes_longer(0.0)
    goes_on.set()
    assert second.result(LIMIT_S) == 7
    threads.close()


def test_abandoned_masks_hold_up_no_others():
    """A thread that fills them is replaced, and ends with them."""
    threads, first, goes_on = stuck_thread()
    second = threads.submit(get_ident)
    threads.abandon(first)
    replacement = second.result(LIMIT_S)

    goes_on.set()
    assert first.result(LIMIT_S)
    later = [threads.submit(get_ident) for _ in range(20)]
    assert {one.result(LIMIT_S) for one in later} == {replacement}
    threads.close()


def test_abandoned_masks_that_wait_for_a_thread_are_never_filled():
    threads, _, goes_on = stuck_thread()
    filled = []
    second = threads.submit(lambda: filled.append(2))
    third = threads.submit(lambda: filled.append(3))
    threads.abandon(second)
    goes_on.set()
    third.result(LIMIT_S)
    assert filled == [3]
    assert second.cancelled()
    threads.close()


def test_only_so_many_threads_go_on_with_abandoned_masks():
    """The last one keeps its thread, until those before it are through."""
    threads, goes_on = GrammarThreads(1, "masks"), Event()
    for count in range(MAX_ABANDONED + 1):
        begun = Event()

        def fill(begun=begun):
            begun.set()
            return goes_on.wait(LIMIT_S)

        last = threads.submit(fill)
        assert begun.wait(LIMIT_S), count
        threads.abandon(last)
    waiting = threads.submit(get_ident)
    assert not waiting.running()
    assert not last.done()
    goes_on.set()
    assert waiting.result(LIMIT_S)
    threads.close()
