"""The outbox: one worker at a time, back-off, dead letters, and no effect for a lost lease."""

from __future__ import annotations

from filrouge.core.clock import to_text
from filrouge.runtime.jobs import LEASE_SECONDS, MAX_ATTEMPTS, MAX_DEATHS, TOO_MANY_DEATHS, Job, Jobs, QueueCount
from filrouge.testing import ManualClock, memory_database
from tests.support.rows import NOON


def queue(*names: str) -> tuple[Jobs, ManualClock]:
    jobs, clock = Jobs(memory_database().tx), ManualClock()
    for name in names:
        assert jobs.enqueue("analyse", {"turn": name}, dedupe=name, at=clock.now())
        clock.move(milliseconds=5)
    return jobs, clock


def leased(jobs: Jobs, clock: ManualClock, worker: str = "w") -> Job:
    [job] = jobs.lease(worker, clock.now())
    return job


def test_jobs_are_taken_oldest_first_and_by_one_worker_each() -> None:
    jobs, clock = queue("a", "b")
    assert [leased(jobs, clock, worker).payload for worker in ("one", "other")] == [{"turn": "a"}, {"turn": "b"}]
    assert jobs.lease("third", clock.now()) == []
    assert jobs.count() == QueueCount(waiting=0, running=2, dead=0)


def test_a_job_with_the_same_key_is_queued_once_until_it_is_done() -> None:
    jobs, clock = queue("a")
    assert not jobs.enqueue("analyse", {}, dedupe="a", at=clock.now())
    job = leased(jobs, clock)
    assert not jobs.enqueue("analyse", {}, dedupe="a", at=clock.now())
    assert jobs.finish(job)
    assert jobs.enqueue("analyse", {}, dedupe="a", at=clock.now())


def test_a_delayed_job_waits_and_says_until_when() -> None:
    jobs, clock = queue()
    assert jobs.next_due() is None
    jobs.enqueue("reconcile", {}, dedupe="r", at=clock.now(), delay=2.0)
    clock.move(seconds=1.999)
    assert jobs.lease("w", clock.now()) == []
    clock.move(milliseconds=1)
    assert jobs.next_due() == to_text(clock.now())
    assert leased(jobs, clock).kind == "reconcile"


def test_a_lease_that_runs_out_goes_to_another_and_the_first_cannot_finish() -> None:
    jobs, clock = queue("a")
    first = leased(jobs, clock, "dead")
    clock.move(seconds=LEASE_SECONDS - 0.001)
    assert jobs.lease("other", clock.now()) == []
    clock.move(milliseconds=1)
    second = leased(jobs, clock, "other")
    assert (second.id, second.attempts) == (first.id, 2)
    assert not jobs.finish(first)
    assert jobs.finish(second)
    assert not jobs.finish(second)


def test_a_failure_backs_off_by_powers_of_two_and_is_set_aside_after_eight() -> None:
    jobs, clock = queue("a")
    for attempt in range(1, MAX_ATTEMPTS + 1):
        job = leased(jobs, clock)
        assert job.attempts == attempt
        assert jobs.fail(job, "no model", clock.now()) == (attempt == MAX_ATTEMPTS)
        clock.move(seconds=2**attempt - 0.001)
        assert jobs.lease("w", clock.now()) == []
        clock.move(milliseconds=1)
    assert jobs.lease("w", clock.now()) == []
    assert jobs.count() == QueueCount(waiting=0, running=0, dead=1)
    assert [(letter["error"], letter["attempts"]) for letter in jobs.dead()] == [("no model", 8)]


def test_a_lost_lease_cannot_fail_the_job_of_who_has_it() -> None:
    jobs, clock = queue("a")
    for _ in range(MAX_ATTEMPTS - 1):
        leased(jobs, clock, "slow")
        clock.move(seconds=LEASE_SECONDS)
    lost = leased(jobs, clock, "slow")
    clock.move(seconds=LEASE_SECONDS)
    leased(jobs, clock, "quick")
    assert not jobs.fail(lost, "late", clock.now())
    assert jobs.count() == QueueCount(waiting=0, running=1, dead=0)


def test_a_stopping_worker_gives_its_own_back_as_if_never_taken() -> None:
    jobs, clock = queue("a", "b")
    leased(jobs, clock, "stopping")
    leased(jobs, clock, "other")
    assert jobs.release("stopping") == 1
    assert leased(jobs, clock, "next").attempts == 1


def test_the_lock_holder_takes_over_what_all_others_held() -> None:
    jobs, clock = queue("a", "b")
    mine, theirs = leased(jobs, clock, "me"), leased(jobs, clock, "dead")
    assert jobs.reclaim("me", clock.now()) == []
    assert leased(jobs, clock, "me").id == theirs.id
    assert jobs.finish(mine)
    assert not jobs.finish(theirs)


def test_jobs_that_came_up_at_one_moment_are_done_in_their_order() -> None:
    jobs = Jobs(memory_database().tx)
    for number in range(40):
        jobs.enqueue("work", {"n": number}, dedupe=f"job {number}", at=NOON)
    done = [job.payload["n"] for _ in range(40) for job in jobs.lease("w", NOON)]
    assert done == list(range(40))


def test_a_long_piece_of_work_goes_on_behind_what_came_up_meanwhile() -> None:
    jobs, clock = queue("a")
    job = leased(jobs, clock)
    clock.move(seconds=1)
    jobs.enqueue("analyse", {"turn": "b"}, dedupe="b", at=clock.now())
    clock.move(seconds=1)
    assert jobs.again(job, {"turn": "a", "from": 7}, clock.now())
    assert [leased(jobs, clock).payload for _ in range(2)] == [{"turn": "b"}, {"turn": "a", "from": 7}]
    assert not jobs.again(Job(id=job.id, kind="analyse", payload={}, attempts=1, worker="other"), {}, clock.now())


def test_a_job_that_waits_for_its_next_try_is_hurried_and_counted_afresh() -> None:
    jobs, clock = queue("a")
    jobs.fail(leased(jobs, clock), "the model is down", clock.now())
    assert jobs.lease("w", clock.now()) == []
    told = jobs.get_by_key("a")
    assert told is not None
    assert (told["state"], told["attempts"], told["error"]) == ("queued", 1, "the model is down")
    jobs.make_due("a", clock.now())
    assert leased(jobs, clock).attempts == 1
    jobs.make_due("a", clock.now())
    told = jobs.get_by_key("a")
    assert told is not None
    assert (told["state"], told["error"]) == ("running", "")
    assert jobs.get_by_key("b") is None


def test_jobs_of_one_kind_are_taken_together_and_no_more_than_asked_for() -> None:
    jobs, clock = queue("a", "b")
    jobs.enqueue("brief", {}, dedupe="brief", at=clock.now())
    jobs.enqueue("analyse", {"turn": "c"}, dedupe="c", at=clock.now())
    taken = [[job.payload for job in jobs.lease("w", clock.now(), {"analyse": 2})] for _ in range(4)]
    assert taken == [[{"turn": "a"}, {"turn": "b"}], [{}], [{"turn": "c"}], []]


def test_what_understands_goes_before_what_makes_vectors_however_long_that_has_waited() -> None:
    jobs, clock = queue()
    for number in range(300):
        jobs.enqueue("index_turn", {"turn": str(number)}, dedupe=f"index {number}", at=clock.now())
    clock.move(seconds=60)
    for kind in ("reconcile", "read_turns", "analyse", "brief"):
        jobs.enqueue(kind, {}, dedupe=kind, at=clock.now())
    kinds = [jobs.lease("w", clock.now(), {"index_turn": 64})[0].kind for _ in range(5)]
    assert kinds == ["reconcile", "read_turns", "analyse", "brief", "index_turn"]


def test_what_failed_in_company_is_tried_alone() -> None:
    jobs, clock = queue("a", "b")
    for job in jobs.lease("w", clock.now(), {"analyse": 8}):
        jobs.fail(job, "no model", clock.now())
    clock.move(seconds=2)
    jobs.enqueue("analyse", {"turn": "c"}, dedupe="c", at=clock.now())
    taken = [[job.payload["turn"] for job in jobs.lease("w", clock.now(), {"analyse": 8})] for _ in range(3)]
    assert taken == [["a"], ["b"], ["c"]]


def test_some_of_what_is_held_can_be_given_back() -> None:
    jobs, clock = queue("a", "b", "c")
    first, *rest = jobs.lease("w", clock.now(), {"analyse": 8})
    assert jobs.release("w", rest) == 2
    assert jobs.finish(first)
    assert [job.attempts for job in jobs.lease("w", clock.now(), {"analyse": 8})] == [1, 1]


def test_what_was_in_hand_at_a_death_is_taken_alone_and_as_if_never_tried() -> None:
    jobs, clock = queue("a", "b")
    assert len(jobs.lease("dead", clock.now(), {"analyse": 8})) == 2
    assert jobs.reclaim("next", clock.now()) == []
    taken = [jobs.lease("next", clock.now(), {"analyse": 8}) for _ in range(3)]
    assert [[(job.payload["turn"], job.attempts) for job in some] for some in taken] == [[("a", 1)], [("b", 1)], []]


def deaths(jobs: Jobs, clock: ManualClock, number: int) -> float:
    """Let so many processes die of the job in hand; how many seconds the job was kept waiting in all."""
    began = clock.now()
    for death in range(number):
        while not jobs.lease(f"dies {death}", clock.now()):
            clock.move(seconds=1)
        jobs.reclaim(f"dies {death + 1}", clock.now())
    return (clock.now() - began).total_seconds()


def test_what_processes_die_of_again_and_again_waits_longer_each_time_and_is_set_aside() -> None:
    jobs, clock = queue("a")
    assert deaths(jobs, clock, MAX_DEATHS - 1) >= 60
    clock.move(seconds=120)
    assert len(jobs.lease("last", clock.now())) == 1
    assert jobs.reclaim("next", clock.now()) == [{"turn": "a"}]
    assert [(letter["error"], letter["kind"]) for letter in jobs.dead()] == [(TOO_MANY_DEATHS, "analyse")]


def test_work_that_got_somewhere_between_deaths_is_never_set_aside_for_them() -> None:
    jobs, clock = queue("a")
    for step in range(3 * MAX_DEATHS):
        deaths(jobs, clock, MAX_DEATHS - 1)
        clock.move(seconds=120)
        assert jobs.again(leased(jobs, clock), {"turn": "a", "from": step}, clock.now())
    assert jobs.count() == QueueCount(waiting=1, running=0, dead=0)


def test_deaths_leave_the_tries_of_a_job_that_fails_as_they_were() -> None:
    jobs, clock = queue("a")
    deaths(jobs, clock, MAX_DEATHS - 1)
    clock.move(seconds=120)
    job = leased(jobs, clock)
    assert (job.attempts, jobs.fail(job, "no model", clock.now())) == (1, False)
