"""sign, and verify --key: whose run it is, and that it is unchanged, in the form of OpenSSF's model signing."""

import base64
import json
import sys

import pytest

from patchword.recipes.run_folders.verification import reseal

ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")


def write_keys(folder, name="key", curve=None, password=b""):
    key = ec.generate_private_key(curve or ec.SECP256R1())
    pem, spki = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    encrypted = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private, public = folder / f"{name}.pem", folder / f"{name}.public.pem"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encrypted))
    public.write_bytes(key.public_key().public_bytes(pem, spki))
    return private, public


@pytest.fixture
def keys(tmp_path):
    return write_keys(tmp_path)


@pytest.fixture
def signed(command, mine, keys):
    code, printed, error = command("sign", str(mine), "--key", keys[0])
    assert (code, error) == (0, "")
    assert "model.sig: " in printed
    return mine


def test_a_signed_run_is_as_it_was(command, signed, keys):
    code, printed, _ = command("verify", signed, "--key", keys[1])
    assert code == 0
    assert "all files are as they were sealed" in printed
    assert f"{signed / 'model.sig'}: all 8 files are as signed" in printed
    assert command("verify", signed)[0] == 0
    record = json.loads(command("verify", signed, "--key", keys[1], "--json")[1])
    assert {finding["state"] for finding in record["signed"]} == {"ok"}
    assert {"model.safetensors", "config.json", "recipe.yaml", "seal.json"} <= {one["name"] for one in record["signed"]}


def test_a_change_with_a_new_seal_is_found(command, signed, keys):
    config = json.loads((signed / "config.json").read_text())
    (signed / "config.json").write_text(json.dumps(config))
    (signed / "tokenizer.json").write_text("{}")
    (signed / "calibration.json").unlink()
    reseal(signed)
    assert command("verify", signed)[0] == 0
    code, printed, _ = command("verify", signed, "--key", keys[1])
    assert code == 1
    states = {line.split()[0]: line.split()[1] for line in printed.splitlines() if line.split()[1] != "ok"}
    expected = {"config.json": "changed", "calibration.json": "missing", "tokenizer.json": "added"}
    assert {name: states[name] for name in expected} == expected
    assert "model.sig: 4 files are not as they were signed" in printed


def test_every_changed_byte_of_a_signature_is_refused(command, signed, keys):
    path = signed / "model.sig"
    bundle = json.loads(path.read_text())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b'"config.json"', b'"Config.json"')
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    path.write_text(json.dumps(bundle))
    assert "the signature in" in refused(command, signed, keys)
    path.write_text("{}")
    assert "is not a signature by a key" in refused(command, signed, keys)
    path.unlink()
    assert "patchword sign" in refused(command, signed, keys)


def test_another_key_is_refused(command, signed, tmp_path):
    assert "was made with another key" in refused(command, signed, write_keys(tmp_path, "other"))
    bundle = json.loads((signed / "model.sig").read_text())
    del bundle["verificationMaterial"]["publicKey"]["hint"]  # which is no proof
    (signed / "model.sig").write_text(json.dumps(bundle))
    assert "the signature in" in refused(command, signed, write_keys(tmp_path, "third"))


def refused(command, run, keys):
    code, _, error = command("verify", run, "--key", keys[1])
    assert code == 2
    return error


def test_a_damaged_run_is_not_signed(command, mine, keys):
    (mine / "config.json").write_text("{}")
    code, _, error = command("sign", mine, "--key", keys[0])
    assert code == 2
    assert "config.json has changed since it was written" in error
    assert not (mine / "model.sig").exists()


def test_keys_that_cannot_be_used(command, mine, tmp_path, monkeypatch):
    private, public = write_keys(tmp_path, "koblitz", ec.SECP256K1())
    assert "secp256k1" in command("sign", mine, "--key", private)[2]
    assert "private key as PEM" in command("sign", mine, "--key", public)[2]
    missing = command("sign", mine, "--key", tmp_path / "none.pem")[2]
    assert "cannot read the private key" in missing
    assert "openssl genpkey" in missing
    private, public = write_keys(tmp_path, "secret", password=b"open")
    monkeypatch.setattr("sys.stdin", sys.__stdin__ if not sys.__stdin__.isatty() else None)
    assert "set PATCHWORD_KEY_PASSWORD" in command("sign", mine, "--key", private)[2]
    monkeypatch.setenv("PATCHWORD_KEY_PASSWORD", "closed")
    assert "cannot be used" in command("sign", mine, "--key", private)[2]
    monkeypatch.setenv("PATCHWORD_KEY_PASSWORD", "open")
    assert command("sign", mine, "--key", private)[0] == 0
    assert command("verify", mine, "--key", public)[0] == 0


def test_only_runs_are_signed(command, tmp_path, keys):
    (tmp_path / "model").mkdir()
    assert "a folder that is no run" in command("sign", tmp_path / "model", "--key", keys[0])[2]
    assert list((tmp_path / "model").iterdir()) == []


def test_a_signature_may_lie_elsewhere(command, mine, keys, tmp_path):
    out = tmp_path / "sent.sig"
    assert command("sign", mine, "--key", keys[0], "--out", out)[0] == 0
    assert not (mine / "model.sig").exists()
    assert command("verify", mine, "--key", keys[1], "--signature", out)[0] == 0
    assert "--signature has no effect without --key" in command("verify", mine, "--signature", out)[2]


@pytest.mark.parametrize("curve", ["SECP256R1", "SECP384R1", "SECP521R1"])
def test_the_package_model_signing_reads_it(command, mine, tmp_path, curve):
    verifying = pytest.importorskip("model_signing.verifying")
    private, public = write_keys(tmp_path, curve, getattr(ec, curve)())
    assert command("sign", mine, "--key", private)[0] == 0
    config = verifying.Config().use_elliptic_key_verifier(public_key=public)
    config.verify(mine, mine / "model.sig")
    (mine / "evaluations").mkdir()
    (mine / "evaluations" / "other.json").write_text("{}")
    config.set_ignore_unsigned_files(True).verify(mine, mine / "model.sig")
    (mine / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json"):
        config.verify(mine, mine / "model.sig")


def test_a_signature_of_the_package_model_signing_is_read(command, mine, keys):
    signing = pytest.importorskip("model_signing.signing")
    config = signing.Config().use_elliptic_key_signer(private_key=keys[0])
    config.sign(mine, mine / "model.sig")
    assert command("verify", mine, "--key", keys[1])[0] == 0
    (mine / "metrics.jsonl").write_text("another")  # which the seal has of a finished run only
    assert command("verify", mine)[0] == 0
    code, printed, _ = command("verify", mine, "--key", keys[1])
    assert code == 1
    assert "metrics.jsonl  changed" in printed
