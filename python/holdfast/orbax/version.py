"""The release of Orbax whose behaviour is followed:
`orbax.checkpoint.version`."""

__version__ = "0.12.8"


def get_details() -> str:
    """One line that names the release."""
    return f"orbax-checkpoint version: {__version__}"
