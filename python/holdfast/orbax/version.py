"""The Orbax release whose behavior holdfast follows:
`orbax.checkpoint.version`."""

__version__ = "0.12.8"


def get_details() -> str:
    """Returns one line that names the release."""
    return f"orbax-checkpoint version: {__version__}"
