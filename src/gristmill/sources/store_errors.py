"""Why an object store or a folder failed, in words for an operator."""

import re

_STATUS = re.compile(r"status code: (\d{3})")
_NO_ADDRESS = re.compile(r"recogni[sz]e URL|parse URL|invalid url", re.IGNORECASE)
_UNREACHABLE = re.compile(r"sending request|dns error|connection|timed out|timeout", re.IGNORECASE)
_REFUSED = "the object store refuses access ({}): check the credentials, and that they may list, read, write and delete there"
_BY_STATUS = {
    401: _REFUSED,
    403: _REFUSED,
    404: "the object store has no such bucket ({}): create it, or correct its name",
    429: "the object store limits requests ({}): try again later",
}


def explain_store_error(error: Exception) -> str:
    """The reason of an error of `obstore` or of the system, without a stop at its end."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    message = str(error)
    if (match := _STATUS.search(message)) is not None:
        status = int(match[1])
        return _BY_STATUS.get(status, "the object store failed ({}): try again later").format(status)
    if _NO_ADDRESS.search(message):
        return "this is not the address of a bucket"
    if _UNREACHABLE.search(message):
        return "the object store can't be reached: check its address and the network"
    return message.partition("\n")[0].rstrip(".")  # obstore adds the chain of causes on further lines
