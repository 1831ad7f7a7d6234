#!/usr/bin/env python3
"""The rig's figures: each kind of chart is an SVG that holds what was given; what cannot be drawn is refused in words."""
import json
import os
import subprocess
import xml.etree.ElementTree

DRAW = os.path.join(os.environ["LAPWING_BUILD_DIR"], "tests", "draw")
SVG = "{http://www.w3.org/2000/svg}"


def draw(chart, code=0):
    text = chart if isinstance(chart, str) else json.dumps(chart)
    done = subprocess.run([DRAW], input=text, capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def figure(chart):
    return xml.etree.ElementTree.fromstring(draw(chart).stdout)


def main():
    x = {"title": "ranks", "scale": "log2"}
    y = {"title": "error", "percent": True}
    line = figure({"title": "a <b> & c", "note": "from 2 runs", "x": x, "y": y,
                   "series": [{"name": "said", "x": [1, 2, 4], "y": [0.1, None, 0.3]},
                              {"name": "measured", "kind": "points", "x": [1, 2], "y": [0.1, 0.2], "low": [0, None], "high": [0.2, None]}]})
    words = list(line.itertext())
    assert all(word in words for word in ("a <b> & c", "from 2 runs", "ranks", "error", "said", "measured", "10 %")), words
    assert len(line.findall(f"{SVG}polyline")) == 0  # one point on each side of the gap: no line
    labels = {"title": "model", "labels": ["csf", "osf", "fine"]}
    for kind in ("bar", "stack"):
        bars = figure({"title": "t", "x": labels, "y": y, "series": [{"name": name, "kind": kind, "y": [0.1, 0.2, 0.3]} for name in "ab"]})
        areas = [rect for rect in bars.iter(f"{SVG}rect") if rect.get("fill", "").startswith("url(#hatch")]
        assert len(areas) == 2 * 3 + 2, len(areas)  # and one of each in the legend
        lefts = {rect.get("x") for rect in areas[2:]}
        assert len(lefts) == (6 if kind == "bar" else 3), (kind, lefts)
    heat = figure({"heat": [[1, None, 3], [4, 5, 6]], "marks": [["best", "", "unsure"], ["recorded", "", ""]], "title": "t",
                   "value_title": "ms", "x": labels, "y": {"title": "Q", "labels": ["0", "1 MiB"]}})
    assert {"best", "recorded", "not known", "6.000"} <= set(heat.itertext()), list(heat.itertext())
    assert "not JSON" in draw("{", 1).stderr
    for broken, word in (({"title": "t", "x": x, "y": y}, "series"), ({"title": "t", "series": []}, "axis"),
                         ({"x": x, "y": y, "series": [{"name": "a", "x": [1], "y": [1, 2]}]}, "length"),
                         ({"x": x, "y": y, "series": [{"name": "a", "kind": "pie", "y": [1]}]}, "pie"),
                         ({"heat": [[1]], "x": labels, "y": labels}, "label")):
        assert word in draw(broken, 1).stderr, (broken, draw(broken, 1).stderr)
    print("lines, points, bars, stacks and heat maps are drawn; 6 wrong inputs are refused")


if __name__ == "__main__":
    main()
