"""Names that other libraries have for our fields. A message names ours; the other name is not accepted."""

from collections.abc import Collection, Mapping

from patchword.models.field_aliases import FIELD_ALIASES

# The other name -> our field; model.FIELD is a field of the model's config.
ALIASES: Mapping[str, str] = {
    "lr": "learning_rate",
    "max_lr": "learning_rate",
    "base_lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "batch": "batch_size",
    "batchsize": "batch_size",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "ema": "ema_decay",
    "model_ema": "ema_decay",
    "grad_clip": "clip_norm",
    "clip_grad": "clip_norm",
    "max_grad_norm": "clip_norm",
    "gradient_clip_val": "clip_norm",
    "grad_accum": "gradient_accumulation",
    "accumulate_grad_batches": "gradient_accumulation",
    "gradient_accumulation_steps": "gradient_accumulation",
    "gradient_checkpointing": "activation_checkpointing",
    "grad_checkpointing": "activation_checkpointing",
    "min_lr": "min_lr_ratio",
    "epoch": "epochs",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "n_epochs": "epochs",
    "num_train_epochs": "epochs",
    "warmup_ratio": "warmup",
    "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "sched": "schedule",
    "max_length": "length",
    "max_seq_length": "length",
    "early_stopping": "patience",
    "dtype": "precision",
    "unpad": "packed",
    "smoothing": "label_smoothing",
    "label_smoothing_factor": "label_smoothing",
    "random_state": "seed",
    "data_dir": "data",
    "dataset": "data",
    "data_path": "data",
    "root": "data",
    "train_file": "train",
    "validation_file": "validation",
    "val": "validation",
    "val_split": "validation",
    "validation_split": "validation",
    "test_file": "test",
    "tokenizer_name": "tokenizer",
    "mixup": "augmentation.mixup",
    "mixup_alpha": "augmentation.mixup",
    "cutmix": "augmentation.cutmix",
    "cutmix_alpha": "augmentation.cutmix",
    "hflip": "augmentation.flip",
    "reprob": "augmentation.random_erasing",
    "gpu": "device",
    "model_name": "model",
    "model_name_or_path": "model",
    "arch": "model",
    **{name: f"model.{field}" for name, field in FIELD_ALIASES.items()},
}
# Fields that mean the same in recipes without the field.
SIMILAR: Mapping[str, tuple[str, ...]] = {
    "model.image": ("crop", "model.min_size"),
    "data": ("train", "text"),
    "length": ("model.max_length",),
}
_ADAMW = "every recipe trains with AdamW (learning_rate, weight_decay, bias_correction); sam=0.05 adds SAM"
_WEIGHTS = (
    "name trained weights as the model: model=hf:OWNER/REPO (`patchword models --pretrained`), zoo:NAME (`patchword "
    "models --zoo`), a run or a folder"
)
# Names without a field of ours -> what to do instead.
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("pretrained", "checkpoint", "checkpoint_path", "weights", "init_checkpoint"), _WEIGHTS),
    **dict.fromkeys(("num_classes", "nb_classes", "num_labels"), "the number of classes comes from the data"),
    **dict.fromkeys(("resume", "resume_from_checkpoint"), "add --resume to the command that started the run"),
    **dict.fromkeys(("output_dir", "save_dir"), "runs are written to --runs FOLDER, under --name NAME"),
    **dict.fromkeys(("fp16", "bf16", "amp"), "did you mean 'precision'? e.g. precision=bfloat16"),
    **dict.fromkeys(("optimizer", "optim", "opt", "momentum", "betas", "adam_beta1", "adam_beta2"), _ADAMW),
    **dict.fromkeys(("run_name", "project"), "the name of a run is given by --name NAME"),
    **dict.fromkeys(("gpus", "num_gpus", "devices"), "--processes NUMBER uses several GPUs; device=cuda one"),
    **dict.fromkeys(("max_steps", "num_steps", "iterations"), "the length of a run is given in epochs: epochs=NUMBER"),
    **dict.fromkeys(("warmup_steps", "warmup_epochs"), "warmup is a fraction of the run, e.g. warmup=0.1"),
    **dict.fromkeys(("num_workers", "workers"), "images are read by as many threads as there are CPU cores"),
}


def meant_field(name: str, known: Collection[str]) -> str:
    """Return our field that a name of other libraries means, or an empty text. known: the fields to choose from"""
    meant = ALIASES.get(name, name)
    return next((field for field in (meant, *SIMILAR.get(meant, ())) if field in known), "")


def alias_hint(name: str, known: Collection[str]) -> str:
    """Return a hint for a name of other libraries, or an empty text. known: our fields, of which a hint names one"""
    meant = meant_field(name, known)
    return ADVICE.get(name) or (f"did you mean {meant!r}?" if meant else "")
