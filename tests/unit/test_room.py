"""Room for what is under way: bounded in events and bytes, first come first served."""

from concurrent.futures import Future

from lastword_producers.room import Room


def waiting(room: Room, size: int) -> Future[None]:
    place = room.take(size)
    assert place is not None
    assert not place.done()
    return place


def test_there_is_room_for_so_many_events_and_no_more() -> None:
    room = Room(2, 1000)

    assert (room.take(1), room.take(1)) == (None, None)
    third = waiting(room, 1)
    room.give_back(1)

    assert third.done()
    waiting(room, 1)


def test_there_is_room_for_so_many_bytes_and_no_more() -> None:
    room = Room(10, 100)
    room.take(60)
    large = waiting(room, 50)

    room.give_back(60)

    assert large.done()
    assert room.take(50) is None
    waiting(room, 1)


def test_a_small_event_does_not_go_before_a_large_one_that_waits() -> None:
    room = Room(10, 100)
    room.take(60)
    large = waiting(room, 50)
    small = waiting(room, 1)

    room.give_back(60)

    assert (large.done(), small.done()) == (True, True)


def test_what_leaves_the_queue_takes_no_room_and_stands_in_nobodys_way() -> None:
    room = Room(10, 100)
    room.take(60)
    large, small = waiting(room, 50), waiting(room, 10)

    assert room.leave(large)

    assert small.done()
    assert room.take(30) is None


def test_what_was_cancelled_in_the_queue_takes_no_room() -> None:
    room = Room(1, 100)
    room.take(1)
    gone, next_one = waiting(room, 1), waiting(room, 1)
    assert gone.cancel()

    room.give_back(1)

    assert next_one.done()
    assert room.leave(gone)
    room.give_back(1)
    assert room.take(1) is None


def test_what_has_its_room_can_no_longer_leave() -> None:
    room = Room(1, 100)
    room.take(1)
    place = waiting(room, 1)

    room.give_back(1)

    assert not room.leave(place)


def test_an_event_that_is_larger_than_all_has_the_room_to_itself() -> None:
    room = Room(10, 100)
    room.take(1)
    huge = waiting(room, 500)
    room.give_back(1)
    assert huge.done()

    other = waiting(room, 1)
    room.give_back(500)
    assert other.done()
