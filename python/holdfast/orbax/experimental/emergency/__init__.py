"""Checkpoints in local storage: names that refuse.

Every module below this package is made when it is imported, of the table in
`_names`.
"""

from holdfast.orbax.experimental.emergency._names import make_modules

make_modules(__name__)
