"""Turns the errors of huggingface_hub and of its HTTP client into errors with expected, got and a hint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from patchword.core.disk_space import is_full, write_error
from patchword.core.errors import UserError
from patchword.weights.hub.library import cache_folder, hub_library
from patchword.weights.hub.name import HubName

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_LOGIN = "accept its conditions on its page, make a token there, and give it with `hf auth login` or HF_TOKEN"
_AGAIN = "run the same command again: finished files are kept"


@contextmanager
def hub_failures(name: HubName, file: str = "") -> Iterator[None]:
    """Replace any error of the hub, the connection or the disk by a UserError. file: the one that is fetched"""
    hub_library()
    from huggingface_hub import errors

    # The base class of the HTTP client that this version of huggingface_hub uses.
    client_error = cast(type[Exception], errors.HfHubHTTPError.__bases__[0])
    try:
        yield
    except errors.OfflineModeIsEnabled:
        raise _offline(name) from None
    except errors.HfHubHTTPError as error:
        raise _refused(name, file, error) from None
    except errors.LocalEntryNotFoundError as error:
        cause = error.__cause__
        if isinstance(cause, errors.HfHubHTTPError):
            raise _refused(name, file, cause) from None
        raise (
            _offline(name) if isinstance(cause, errors.OfflineModeIsEnabled) else _lost(name, cause or error)
        ) from None
    except (client_error, OSError) as error:
        if is_full(error) or getattr(error, "filename", None):
            raise write_error(f"cannot store {name} in {cache_folder()}", cache_folder(), error) from None
        raise _lost(name, error) from None
    except (ValueError, TypeError, KeyError) as error:  # an answer that is not JSON, or not that of a hub
        raise _lost(name, error) from None


def _offline(name: HubName) -> UserError:
    return UserError(
        f"{name} cannot be fetched: the hub is switched off",
        expected="a connection",
        got="HF_HUB_OFFLINE=1",
        hint="unset HF_HUB_OFFLINE, or copy the model's folder from another machine and give its path",
    )


def _lost(name: HubName, error: BaseException) -> UserError:
    """Return the error for a connection that could not be made, or that broke."""
    reason = str(error).partition("\n")[0][:200] or type(error).__name__
    return UserError(
        f"the download of {name} was interrupted or could not start",
        expected=f"a connection to {hub_library().constants.ENDPOINT}",
        got=reason,
        hint=f"check the connection, then {_AGAIN}",
    )


def _refused(name: HubName, file: str, error: "HfHubHTTPError") -> UserError:
    """Return the error for a response that is not a file."""
    from huggingface_hub import errors

    status = error.response.status_code
    if isinstance(error, errors.GatedRepoError):
        return UserError(f"{name} is gated", expected="an account with access", got=f"HTTP {status}", hint=_LOGIN)
    if isinstance(error, errors.RevisionNotFoundError):
        hint = "the page of the model lists its branches, tags and commits"
        return UserError(
            f"{name.id} has no such revision", expected="a branch, tag or commit", got=name.revision, hint=hint
        )
    if isinstance(error, errors.EntryNotFoundError):
        got = f"HTTP {status} for {file}"
        return UserError(f"a file of {name} is missing on the hub", expected="the listed files", got=got, hint=_AGAIN)
    if isinstance(error, errors.RepositoryNotFoundError) or status == 404:
        hint = f"check the spelling; if it is private or gated: {_LOGIN}"
        return UserError(
            f"there is no public model {name.id}", expected="a model on the hub", got=f"HTTP {status}", hint=hint
        )
    if status in (401, 403):
        hint = f"if it is private or gated: {_LOGIN}"
        return UserError(f"{name} may not be read", expected="an account with access", got=f"HTTP {status}", hint=hint)
    return UserError(
        f"the hub cannot serve {name} now", expected="a file", got=f"HTTP {status}", hint=f"later, {_AGAIN}"
    )
