"""`holdfast.orbax.v1`, by its older path.

Every object here is that of `holdfast.orbax.v1`.
"""

from holdfast.orbax.v1 import *  # noqa: F403
