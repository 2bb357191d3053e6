"""The environment of a spec: plain values, secrets by name, and what is refused because it looks like a secret."""

import pytest

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.env import SecretUse, env_hidden, looks_secret, name_for, secret_errors, secrets_named
from scheduler.core.spec.spec import JobSpec

BASE = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"]}
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"


def spec(env: object) -> JobSpec:
    return JobSpec.parse({**BASE, "env": env})


def test_secrets_and_plain_values_are_stored_as_they_were_named() -> None:
    """``parse`` gives the same spec back, in one order."""
    env = {"Z": "1", "KEY": {"secret": "wandb"}, "S3": {"secret": "s3", "of": "queue"}, "A_TOKEN": {"plain": TOKEN}}
    read = spec(env)

    assert read.env == {"Z": "1", "A_TOKEN": TOKEN}
    assert read.secrets == {"KEY": SecretUse(name="wandb"), "S3": SecretUse(name="s3", of="queue")}
    stored = read.to_json()["env"]
    assert list(stored.items()) == sorted(env.items())
    assert JobSpec.parse(read.to_json()) == read
    assert secrets_named(read.to_json()) == read.secrets


def test_plain_that_looks_like_no_secret_is_a_plain_text() -> None:
    """Equal jobs are equal specs."""
    assert spec({"SEED": {"plain": "1"}}) == spec({"SEED": "1"})


@pytest.mark.parametrize(
    ("value", "pointer", "code"),
    [
        ({"secret": "a/b"}, "/env/K/secret", "characters"),
        ({"secret": 3}, "/env/K/secret", "characters"),
        ({"secret": "a", "of": "team"}, "/env/K/of", "unknown"),
        ({"secret": "a", "value": "b"}, "/env/K", "unknown"),
        ({"hidden": True}, "/env/K", "hidden"),
        ({}, "/env/K", "unknown"),
        (["a"], "/env/K", "type"),
        ({"plain": 3}, "/env/K", "type"),
    ],
)
def test_each_mistake_is_one_entry_that_says_what_is_right(value: object, pointer: str, code: str) -> None:
    """The field, the kind, and a line to write."""
    with pytest.raises(SpecInvalid) as invalid:
        spec({"K": value})

    assert [(error.pointer, error.code) for error in invalid.value.errors] == [(pointer, code)]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567"),
        ("HF_TOKEN", TOKEN),
        ("ANYTHING", TOKEN),
        ("X", "ghp_" + "a1" * 18),
        ("AWS", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"),
        ("DB_PASSWORD", "hunter2x"),
        ("MY_SECRET", "correct-horse"),
        ("DATABASE_URL", "postgres://ann:pw12@host/db"),
        ("PEM", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"),
        ("DATA", "Zx81kQpW9sLm2Nv7Rt5Yb3Uc6Xe0Aq4Fh"),
    ],
)
def test_secrets_are_told_by_form_name_or_chance(variable: str, value: str) -> None:
    """What people paste into specs."""
    assert looks_secret(variable, value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SEED", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096"),
        ("PAD_TOKEN", "<pad>"),
        ("EOS_TOKEN", "</s>"),
        ("MASK_TOKEN", "[MASK]"),
        ("SORT_KEY", "created_at"),
        ("S3_KEY", "datasets/imagenet/v2.tar"),
        ("ENCODER_KEY", "layer12.attention.weight"),
        ("PASSWORD_FILE", "/run/password-of-the-store"),
        ("DB_PASSWORD", "/run/password"),
        ("DATABASE_URL", "postgres://host/db"),
        ("COMMIT", "9fceb02d0ae598e95dc970b74767f19372d61af8"),
        ("CHECKSUM", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("UUID", "8b6e1f0a-6f0c-4c1a-9d5c-0c3f3a6d2b11"),
        ("RUN_NAME", "resnet50-imagenet-bs256-lr0.1-wd1e-4-seed42"),
        ("MODEL", "ViT-B_16-imagenet21k-finetune-2024-05-01"),
        ("API_KEY", "{key}"),
        ("NCCL_DEBUG", "INFO"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:128"),
        ("NOTE", "the token is on the page Secrets of the queue"),
    ],
)
def test_what_scripts_are_usually_given_is_no_secret(variable: str, value: str) -> None:
    """Few false alarms: these values stand in the specs of users."""
    assert not looks_secret(variable, value)


def test_refusal_holds_the_right_line_and_never_the_value() -> None:
    """The error is shown, logged and mailed around: it must not hold what it protects."""
    read = spec({"HF_TOKEN": TOKEN, "SEED": "1"})
    (error,) = secret_errors(read.env, read.said_plain)

    assert (error.pointer, error.code) == ("/env/HF_TOKEN", "secret")
    assert "HF_TOKEN: {secret: hf}" in error.detail
    assert "clusterweb secret set hf" in error.detail
    assert TOKEN not in error.detail


def test_a_person_says_that_it_is_none() -> None:
    """``plain`` in the spec is kept, so that a clone says it too."""
    read = spec({"HF_TOKEN": {"plain": TOKEN}})

    assert secret_errors(read.env, read.said_plain) == []
    assert read.to_json()["env"] == {"HF_TOKEN": {"plain": TOKEN}}


def test_stored_specs_of_before_are_read() -> None:
    """A plain value that looks like a secret is refused at the door, never in what is stored already."""
    assert spec({"WANDB_API_KEY": TOKEN}).env == {"WANDB_API_KEY": TOKEN}


def test_hidden_values_are_neither_shown_nor_sent() -> None:
    """Names of secrets stay, they are no secrets."""
    shown = env_hidden(spec({"SEED": "1", "T": {"plain": TOKEN}, "K": {"secret": "wandb"}}).to_json())

    assert shown["env"] == {"SEED": {"hidden": True}, "T": {"hidden": True}, "K": {"secret": "wandb"}}


@pytest.mark.parametrize(
    ("variable", "name"),
    [("WANDB_API_KEY", "wandb"), ("HF_TOKEN", "hf"), ("AWS_SECRET_ACCESS_KEY", "aws-secret"), ("KEY", "key")],
)
def test_suggested_names_are_short(variable: str, name: str) -> None:
    """What the refusal tells to write."""
    assert name_for(variable) == name
