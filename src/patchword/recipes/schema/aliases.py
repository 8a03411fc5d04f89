"""Names that other libraries have for our fields. A message names ours; the other name is not accepted."""

from collections.abc import Collection, Mapping

# The other name -> our field; model.FIELD is a field of the model's config.
ALIASES: Mapping[str, str] = {
    "lr": "learning_rate",
    "max_lr": "learning_rate",
    "base_lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "batch": "batch_size",
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
    "model_name": "model",
    "model_name_or_path": "model",
    "arch": "model",
    "img_size": "model.image",
    "imgsz": "model.image",
    "image_size": "model.image",
    "input_size": "model.image",
    "patch_size": "model.patch",
    "in_chans": "model.channels",
    "num_channels": "model.channels",
    "embed_dim": "model.width",
    "hidden_size": "model.width",
    "d_model": "model.width",
    "intermediate_size": "model.hidden",
    "mlp_dim": "model.hidden",
    "num_heads": "model.heads",
    "num_attention_heads": "model.heads",
    "num_layers": "model.depth",
    "num_hidden_layers": "model.depth",
    "dropout_rate": "model.dropout",
    "drop_rate": "model.dropout",
    "drop_path_rate": "model.drop_path",
}
_WEIGHTS = "name trained weights as the model: model=hf:OWNER/REPO, a run or a folder (`patchword models --pretrained`)"
# Names without a field of ours -> what to do instead.
ADVICE: Mapping[str, str] = {
    **dict.fromkeys(("pretrained", "checkpoint", "checkpoint_path", "weights", "init_checkpoint"), _WEIGHTS),
    **dict.fromkeys(("num_classes", "nb_classes", "num_labels"), "the number of classes comes from the data"),
    **dict.fromkeys(("resume", "resume_from_checkpoint"), "add --resume to the command that started the run"),
    **dict.fromkeys(("output_dir", "save_dir"), "runs are written to --runs FOLDER, under --name NAME"),
    **dict.fromkeys(("fp16", "bf16", "amp"), "did you mean 'precision'? e.g. precision=bfloat16"),
    **dict.fromkeys(("num_workers", "workers"), "images are read by as many threads as there are CPU cores"),
}


def alias_hint(name: str, known: Collection[str]) -> str:
    """Return a hint for a name of other libraries, or an empty text. known: our fields, of which a hint names one"""
    meant = ALIASES.get(name, "")
    return ADVICE.get(name) or (f"did you mean {meant!r}?" if meant in known else "")
