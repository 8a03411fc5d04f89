"""A signature over the digests of files, in the form of OpenSSF's model signing: made and checked without a network.

It is a Sigstore bundle in JSON with a DSSE envelope, and in it an in-toto statement: the name and sha256 of each file,
and one digest of all of these. `model_signing verify key` of the package model-signing reads it, too. The key is one on
an elliptic curve, P-256, P-384 or P-521, as a PEM file.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import parse_json
from patchword.core.seal.manifest import relative_name

NEW_KEY = """make a pair of keys, and keep the first one secret:
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem
openssl pkey -in key.pem -pubout -out public.pem"""
_BUNDLE, _PAYLOAD = "application/vnd.dev.sigstore.bundle.v0.3+json", "application/vnd.in-toto+json"
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://model_signing/signature/v1.0"
_LARGEST = 2**24  # bytes of a signature
_CURVES = {"secp256r1": "SHA256", "secp384r1": "SHA384", "secp521r1": "SHA512"}


def statement_of(name: str, digests: Mapping[str, str], unsigned: Sequence[str]) -> str:
    """Return the statement that is signed. unsigned: other files and folders beside them, which verifiers leave out."""
    found = sorted(digests.items())
    whole = hashlib.sha256(b"".join(bytes.fromhex(sha) for _, sha in found)).hexdigest()
    how = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": sorted(unsigned)}
    files = [{"name": file, "algorithm": "sha256", "digest": sha} for file, sha in found]
    body = {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": whole}}],
        "predicateType": _PREDICATE,
        "predicate": {"serialization": how, "resources": files},
    }
    return json.dumps(body, indent=2)


def signed(statement: str, key: Any) -> str:
    """Return the bundle: the statement, its signature, and the digest of the public key."""
    payload = statement.encode()
    signature = key.sign(_envelope(payload), _algorithm(key))
    body = {
        "mediaType": _BUNDLE,
        "verificationMaterial": {"publicKey": {"hint": key_digest(key.public_key())}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": _PAYLOAD,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    return json.dumps(body, indent=2) + "\n"


def verified(path: Path, key: Any) -> dict[str, str]:
    """Return the sha256 of each signed file, after the signature was checked; a wrong one raises a UserError."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"{path.stat().st_size:,} bytes")
        bundle = parse_json(path.read_text(encoding="utf-8"))
        envelope, hint = bundle["dsseEnvelope"], bundle["verificationMaterial"]["publicKey"].get("hint", "")
        [one] = envelope["signatures"]
        payload, signature = _decoded(envelope["payload"]), _decoded(one["sig"])
        if bundle["mediaType"] != _BUNDLE or envelope["payloadType"] != _PAYLOAD:
            raise ValueError(f"{str(bundle['mediaType'])[:80]}, {str(envelope['payloadType'])[:80]}")
    except FileNotFoundError:
        hint = f"sign the run: patchword sign {path.parent} --key KEY.pem"
        raise UserError(f"there is no signature {path}", hint=hint) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a signature by a key", expected=_BUNDLE, got=str(error)) from None
    if hint and hint != key_digest(key):
        got = f"sha256 {str(hint)[:16]}, as the signature says"
        raise UserError(f"{path} was made with another key", expected=f"sha256 {key_digest(key)[:16]}", got=got)
    _check(path, key, signature, _envelope(payload))
    try:
        return _files(parse_json(payload.decode()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        expected = "the name and sha256 of each file"
        raise UserError(f"{path} signs something else", expected=expected, got=str(error)) from None


def private_key(path: Path, password: Callable[[], str]) -> Any:
    """Return a private key. password: is asked if the file is encrypted."""
    serialization = _serialization()
    content = _content(path, "the private key", NEW_KEY)
    try:
        try:
            key = serialization.load_pem_private_key(content, None)
        except TypeError:  # it is encrypted
            key = serialization.load_pem_private_key(content, password().encode())
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} cannot be used", expected="a private key as PEM", got=str(error)) from None
    return _on_a_curve(path, key)


def public_key(path: Path) -> Any:
    """Return a public key."""
    serialization = _serialization()
    content = _content(path, "the public key", "openssl pkey -in key.pem -pubout -out public.pem")
    try:
        key = serialization.load_pem_public_key(content)
    except ValueError as error:
        raise UserError(f"{path} cannot be used", expected="a public key as PEM", got=str(error)) from None
    return _on_a_curve(path, key)


def key_digest(key: Any) -> str:
    """Return the sha256 of a public key as PEM."""
    serialization = _serialization()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.PEM, form)).hexdigest()


def _check(path: Path, key: Any, signature: bytes, content: bytes) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, content, _algorithm(key))
    except InvalidSignature:
        expected = "one that this key made over this statement"
        raise UserError(f"the signature in {path} is wrong", expected=expected, got="a changed file") from None


def _files(statement: Any) -> dict[str, str]:
    if statement["_type"] != _STATEMENT or statement["predicateType"] != _PREDICATE:
        raise ValueError(str(statement["predicateType"])[:80])
    how, resources = statement["predicate"]["serialization"], statement["predicate"]["resources"]
    if how["method"] != "files" or any(one["algorithm"] != "sha256" for one in resources):
        raise ValueError(f"digests of {how['method']!s:.80} with {how['hash_type']!s:.80}")
    found = {relative_name(one["name"]): bytes.fromhex(one["digest"]).hex() for one in resources}
    [subject] = statement["subject"]
    whole = hashlib.sha256(b"".join(bytes.fromhex(one["digest"]) for one in resources)).hexdigest()
    if len(found) < len(resources) or subject["digest"]["sha256"] != whole:
        raise ValueError("digests that contradict each other")
    return found


def _envelope(payload: bytes) -> bytes:
    """Return what DSSE signs: type and length stand before the payload, so that nothing else can be read into it."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _algorithm(key: Any) -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.ECDSA(getattr(hashes, _CURVES[key.curve.name])())


def _on_a_curve(path: Path, key: Any) -> Any:
    curve = getattr(getattr(key, "curve", None), "name", type(key).__name__)
    if curve not in _CURVES:
        expected = f"a key on one of the curves {', '.join(_CURVES)}"
        raise UserError(f"{path} cannot be used", expected=expected, got=curve, hint=NEW_KEY)
    return key


def _content(path: Path, what: str, hint: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {what} {path}", got=error.strerror, hint=hint) from None


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        what = "signatures need the package cryptography, which is not installed"
        raise UserError(what, hint="pip install 'patchword[sign]'") from None
    return serialization
