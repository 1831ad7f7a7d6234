#!/usr/bin/env python3
"""Jobs for the rig: tensors in the order in which backward makes them ready, with the time each takes.

models.py NAME prints one as JSON. Times are dilated: a slow network and slow computing keep two cores free.
"""
import json
import sys


def job(forward_us, tensors):
    return {"forward_us": forward_us,
            "tensors": [{"name": f"g{i}", "bytes": size, "us": us} for i, (size, us) in enumerate(tensors)]}


def uniform():
    """40 tensors of 100 kB: computing and sending take about as long."""
    return job(120000, [(100000, 8000)] * 40)


def tiny():
    """200 tensors of 2 kB: only fixed costs matter."""
    return job(100000, [(2048, 1500)] * 200)


def vgg():
    """32 tensors as VGG-16 has them, 6 MB in all: one of the first ready ones holds 74 %."""
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    parameters = []
    for before, after in zip(channels, channels[1:]):
        parameters += [before * after * 9, after]
    parameters += [25088 * 4096, 4096, 4096 * 4096, 4096, 4096 * 1000, 1000]
    scale = 6e6 / 4 / sum(parameters)
    sizes = [max(4, int(n * scale)) * 4 for n in reversed(parameters)]
    return job(100000, [(size, 200000 / len(sizes)) for size in sizes])


def resnet50():
    """161 tensors as ResNet-50 has them, scaled to 6 MB: large ones between many tiny ones."""
    parameters = [7 * 7 * 3 * 64, 64, 64]
    before = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            parameters += [before * width, width, width, width * width * 9, width, width, width * width * 4,
                           width * 4, width * 4]
            if block == 0:
                parameters += [before * width * 4, width * 4, width * 4]
            before = width * 4
    parameters += [2048 * 1000, 1000]
    sizes = [max(64, n // 16) * 4 for n in reversed(parameters)]
    return job(100000, [(size, 200000 / 161) for size in sizes])


def convnet():
    """A network of torch whose arithmetic is real (worker.py has it): this time is added to each parameter."""
    return {"forward_us": 100000, "parameter_us": 9000}


def cpu():
    """The same network with nothing but its arithmetic, on more images: it keeps a core busy."""
    return {"forward_us": 0, "parameter_us": 0, "batch": 64}


MODELS = {"uniform": uniform, "tiny": tiny, "vgg": vgg, "resnet50": resnet50, "convnet": convnet, "cpu": cpu}

if __name__ == "__main__":
    json.dump(MODELS[sys.argv[1]](), sys.stdout)
