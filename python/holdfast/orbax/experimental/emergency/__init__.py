"""Checkpoints on the hosts themselves, by Orbax's names, on `TieredManager`.

Every module below this package is made when it is imported, of the table in
`_names`. Names that need Google's services, or look into the files of Orbax's
own local checkpoints, refuse.
"""

from holdfast.orbax.experimental.emergency._names import make_modules

make_modules(__name__)
