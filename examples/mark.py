"""Steps and phases marked from Python; without `lapwing record` the calls do nothing.

    lapwing record -- python3 mark.py
"""
import ctypes

_library = ctypes.CDLL(None)


def _function(name, *types):
    try:
        function = _library[name]
    except AttributeError:  # not traced
        return lambda *arguments: None
    function.argtypes, function.restype = types, None
    return function


mark_step = _function("lapwing_mark_step", ctypes.c_int64)
mark = _function("lapwing_mark", ctypes.c_char_p)
range_push = _function("lapwing_range_push", ctypes.c_char_p)
range_pop = _function("lapwing_range_pop")

if __name__ == "__main__":
    for step in range(3):
        mark_step(step)
        range_push(b"load")
        range_pop()
    mark(b"finished")
