"""Host-local checkpoints under Orbax's names, built on `TieredManager`.

Each module of this package is generated on import from the table in `_names`.
Names that need Google's services, or that read the files of Orbax's own local
checkpoints, raise an error.
"""

from holdfast.orbax.experimental.emergency._names import make_modules

make_modules(__name__)
