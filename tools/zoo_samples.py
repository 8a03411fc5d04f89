"""The sample of a model of the zoo: a few real examples that are carried with it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from patchword.core.files import make_folder, write_text
from patchword.recipes.run import Run
from zoo_scores import SAMPLE


def sample_images(run: Path, count: int, out: Path) -> Path:
    """Write images of the run's test set, every class equally often, and labels.csv."""
    found = Run(run)
    images = found.test_images(found.model().card)
    each = count // len(images.classes)
    index = torch.cat([(images.labels == label).nonzero()[:each, 0] for label in range(len(images.classes))])
    rows = ["path,label"]
    make_folder(out)
    chosen = zip(images.pixels.take(index), images.labels[index].tolist(), strict=True)
    for number, (pixels, label) in enumerate(chosen):
        array = pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)
        Image.fromarray(array.numpy()).save(out / f"{number:03}.png", optimize=True)
        rows.append(f'{number:03}.png,"{images.classes[label]}"')
    write_text(out / "labels.csv", "\n".join(rows) + "\n")
    return out / "labels.csv"


def copy_sample(sample: Sequence[str], folder: Path) -> dict[str, str]:
    """Copy the files of the sample; a .csv file brings the images beside it. Return the settings that read them."""
    settings = {}
    make_folder(folder)
    for setting in sample:
        field, _, value = setting.partition("=")
        paths = [Path(part) for part in value.split(",")]
        if not all(path.is_file() for path in paths):
            settings[field] = value
            continue
        for path in paths:
            for file in sorted(path.parent.glob("*.png")) if path.suffix == ".csv" else ():
                shutil.copyfile(file, folder / file.name)
            shutil.copyfile(path, folder / path.name)
        settings[field] = ",".join(f"{SAMPLE}/{path.name}" for path in paths)
    return settings
